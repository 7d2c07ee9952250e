package clitest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/thorough"
)

// Command is a command of scripts. It fails the script by ts.Fatalf; neg is set behind "!".
type Command = func(ts *testscript.TestScript, neg bool, args []string)

// Run runs the scripts in testdata. more are commands of this package alone.
func Run(t *testing.T, more map[string]Command) {
	all := maps.Clone(commands)
	maps.Copy(all, more)
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: all, Condition: condition, Setup: setEnvironment})
}

// condition reports whether [name] holds: "check" under make check, "lab" where labs can be built, "systemd" where it
// is installed. With SLUICE_REQUIRE_KERNEL the last two hold in any case, so that a script fails, and does not skip,
// where something is missing.
func condition(name string) (bool, error) {
	required := os.Getenv("SLUICE_REQUIRE_KERNEL") != ""
	switch name {
	case "check":
		return thorough.Set(), nil
	case "lab":
		return required || labsPermitted(), nil
	case "systemd":
		_, err := exec.LookPath("systemd-analyze")
		return required || err == nil, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// setEnvironment gives a script a name for its lab, files of the module, and addresses for two relays.
func setEnvironment(env *testscript.Env) error {
	env.Setenv("UNIQUE", fmt.Sprintf("test-%d", os.Getpid()))
	env.Setenv("CLIP", Path("testdata/clip.mp4"))
	env.Setenv("LOW", Path("player/sub/testdata/low.mp4")) // another rendition of CLIP
	env.Setenv("CLIPS", Path("player/loc/testdata"))       // short ones, of several codecs
	env.Setenv("DIST", Path("dist"))
	env.Setenv("CAPTURES", Path("rtt/testdata"))
	env.Setenv("TZ", "UTC")
	for _, prefix := range []string{"", "OTHER_", "THIRD_"} {
		addr, err := FreeAddress()
		if err != nil {
			return err
		}
		env.Setenv(prefix+"ADDR", addr)
		admin, err := FreeAddress() // the web page has the port of addr
		if err != nil {
			return err
		}
		env.Setenv(prefix+"ADMIN", admin)
		env.Setenv(prefix+"RELAY", "moqt://"+addr)
		env.Setenv(prefix+"WEBTRANSPORT", "https://"+addr)
		env.Setenv(prefix+"CLUSTER", strings.Replace(addr, "127.0.0.1", "127.0.0.2", 1)) // of TCP
	}
	rtp, err := freePair()
	if err != nil {
		return err
	}
	env.Setenv("RTP", rtp)
	return recordNotifications(env)
}

// recordNotifications acts as systemd: messages of a script to the socket "notify" are written to the file "notified".
func recordNotifications(env *testscript.Env) error {
	addr := &net.UnixAddr{Name: filepath.Join(env.WorkDir, "notify"), Net: "unixgram"}
	socket, err := net.ListenUnixgram("unixgram", addr)
	if err != nil {
		return err
	}
	env.Defer(func() { _ = socket.Close() })
	file, err := os.Create(filepath.Join(env.WorkDir, "notified"))
	if err != nil {
		return err
	}
	go func() {
		defer file.Close()
		for buf := make([]byte, 1024); ; {
			n, err := socket.Read(buf)
			if err != nil {
				return
			}
			fmt.Fprintf(file, "%s\n", buf[:n])
		}
	}()
	return nil
}

// nextPort is the next port to try: below the ports that systems choose for clients, and in a range of this test
// program, so that it stays free until it is used.
var nextPort atomic.Uint32

func init() {
	program := fnv.New32a()
	_, _ = program.Write([]byte(filepath.Base(os.Args[0]))) // never fails
	nextPort.Store(20000 + program.Sum32()%8*1500 + uint32(os.Getpid())%1000)
}

// freePair returns a loopback address for RTP, whose port is even. The next port, for RTCP, is free as well.
func freePair() (string, error) {
	for before := ""; ; {
		addr, err := FreeAddress()
		if err != nil {
			return "", err
		}
		if a, b := portOf(before), portOf(addr); a%2 == 0 && b == a+1 {
			return before, nil
		}
		before = addr
	}
}

func portOf(addr string) uint16 {
	a, _ := netip.ParseAddrPort(addr) // none has port 0
	return a.Port()
}

// FreeAddress returns a loopback address whose port is free for UDP and TCP.
func FreeAddress() (string, error) {
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", nextPort.Add(1))
		udp, err := net.ListenPacket("udp", addr)
		if err != nil {
			continue
		}
		tcp, err := net.Listen("tcp", addr)
		if errors.Join(err, udp.Close()) == nil {
			return addr, tcp.Close()
		}
	}
	return "", errors.New("no free port")
}
