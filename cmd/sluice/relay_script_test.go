package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// setRelayEnv gives a script the sample clip, and addresses for two relays.
func setRelayEnv(env *testscript.Env) error {
	clip, err := filepath.Abs("../../testdata/clip.mp4")
	if err != nil {
		return err
	}
	env.Setenv("CLIP", clip)
	env.Setenv("DIST", filepath.Join(filepath.Dir(clip), "../dist"))
	for _, prefix := range []string{"", "OTHER_"} {
		addr, err := freeAddress()
		if err != nil {
			return err
		}
		env.Setenv(prefix+"ADDR", addr)
		env.Setenv(prefix+"ADMIN", addr) // of TCP
		env.Setenv(prefix+"RELAY", "moqt://"+addr)
		env.Setenv(prefix+"WEBTRANSPORT", "https://"+addr)
	}
	return recordNotifications(env)
}

// recordNotifications stands for systemd: what is sent to the socket "notify" of a script is written to the file "notified".
func recordNotifications(env *testscript.Env) error {
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(env.WorkDir, "notify"), Net: "unixgram"})
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

// nextPort is the next port to try: below those that systems choose for clients, so that it stays free until it is used.
var nextPort atomic.Uint32

func init() { nextPort.Store(20000 + uint32(os.Getpid())%8000) }

// freeAddress returns a loopback address whose port is free for UDP and TCP.
func freeAddress() (string, error) {
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

func init() {
	maps.Copy(scriptCommands, map[string]func(*testscript.TestScript, bool, []string){
		"await": await, "get": get, "exits": exits, "shows": shows, "term": term, "grown": grown, "says": says,
	})
}

// await waits until the relay at $ADMIN says that it is ready, or that at the address in its argument; "! await" until it says that
// it is not.
func await(ts *testscript.TestScript, neg bool, args []string) {
	addr := ts.Getenv("ADMIN")
	if len(args) > 0 {
		addr = args[0]
	}
	eventually(ts, func() (bool, string) {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, fmt.Sprintf("no change in /readyz: %v", err)
		}
		_ = resp.Body.Close()
		return (resp.StatusCode == http.StatusOK) != neg, "no change in /readyz: " + resp.Status
	})
}

// eventually waits until a condition holds. What it says otherwise is the failure of a script that waits in vain.
func eventually(ts *testscript.TestScript, holds func() (bool, string)) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		ok, otherwise := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s", otherwise)
		}
	}
}

// get PATH FILE saves what the admin port answers. "! get" expects another status than 200.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get PATH FILE")
	}
	resp, err := http.Get("http://" + ts.Getenv("ADMIN") + args[0])
	ts.Check(err)
	defer resp.Body.Close()
	if ok := resp.StatusCode == http.StatusOK; ok == neg {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	_, err = io.Copy(f, resp.Body)
	ts.Check(errors.Join(err, f.Close()))
}

// shows PATH PATTERN waits until what the admin port answers matches a regular expression; "! shows" until it does not.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: shows PATH PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		resp, err := http.Get("http://" + ts.Getenv("ADMIN") + args[0])
		ts.Check(err)
		text, err := io.ReadAll(resp.Body)
		ts.Check(errors.Join(err, resp.Body.Close()))
		return pattern.Match(text) != neg, fmt.Sprintf("%s is\n%s", args[0], text)
	})
}

// exits CODE COMMAND ARGS... runs a command that has to exit with that code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// term COMMAND sends SIGTERM to the background command of sluice with that name; to the first one that is still there.
func term(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: term COMMAND")
	}
	for _, cmd := range ts.BackgroundCmds() {
		if len(cmd.Args) > 1 && cmd.Args[1] == args[0] && cmd.Process.Signal(syscall.SIGTERM) == nil {
			return
		}
	}
	ts.Fatalf("no sluice %s in the background", args[0])
}

// grown FILE BYTES waits until a file has at least so many bytes.
func grown(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: grown FILE BYTES")
	}
	want, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		info, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil && info.Size() >= want, args[0] + " does not grow"
	})
}

// says FILE PATTERN waits until a file that somebody else writes matches a regular expression.
func says(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: says FILE PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
		return pattern.Match(text), fmt.Sprintf("%s is\n%s", args[0], text)
	})
}
