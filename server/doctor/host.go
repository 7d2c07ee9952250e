package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
)

const (
	userSpaceSends = "user space sends all media, later"
	// raise is how a relay gets capabilities.
	raise = "as the unit sluice-relay.service does, or: " +
		"setcap cap_net_bind_service,cap_bpf,cap_net_admin,cap_perfmon=p /usr/bin/sluice"
)

func checkKernel(_ context.Context, m *Machine, _ *report) (string, error) {
	release, err := m.word("/proc/sys/kernel/osrelease")
	return "Linux " + release, err
}

// checkFastPath has the kernel judge itself and the capabilities of this process.
func checkFastPath(_ context.Context, m *Machine, r *report) (string, error) {
	if m.FastPath == "off" {
		return "off: " + userSpaceSends, nil
	}
	if err := m.LoadFastPath(); err != nil {
		v, effect, advice := Better, userSpaceSends, ""
		if m.FastPath == "on" {
			v, effect = Wrong, "--fastpath on: the relay does not start"
		}
		if strings.Contains(err.Error(), "CAP_") {
			advice = raise
		}
		r.add(v, effect, advice, "%v", err)
	}
	return "the kernel has taken all programs on " + strings.Join(m.Devices, ", "), nil
}

// Sizes of socket buffers: quic-go wants the first, and dist/60-sluice.conf sets the second. The kernel doubles what a
// program asks for, up to the limit; with CAP_NET_ADMIN, quic-go gets more than the limit.
const leastBuffer, goodBuffer = 7 << 20, 8 << 20

func checkBuffers(_ context.Context, m *Machine, r *report) (string, error) {
	for _, name := range []string{"rmem_max", "wmem_max"} {
		size, err := m.number("/proc/sys/net/core/" + name)
		if err != nil {
			return "", err
		}
		if 2*size < leastBuffer {
			r.add(Better, "without CAP_NET_ADMIN, the kernel drops packets of bursts",
				fmt.Sprintf("sysctl -w net.core.%s=%d", name, goodBuffer),
				"net.core.%s is %d bytes: bursts of video need %d", name, size, leastBuffer/2)
		}
	}
	return fmt.Sprintf("sockets may have %d bytes or more", leastBuffer), nil
}

// checkPorts opens the ports, and closes them.
func checkPorts(_ context.Context, m *Machine, r *report) (string, error) {
	const noStart = "the relay does not start"
	for _, p := range m.Ports {
		addr := p.String()
		if p.Addr().IsUnspecified() {
			addr = fmt.Sprintf(":%d", p.Port()) // the machine may have no IPv6
		}
		switch l, err := m.listen(p.Network, addr); {
		case errors.Is(err, syscall.EADDRINUSE):
			r.add(Better, "unless it is the relay, "+noStart,
				fmt.Sprintf("ss --listening --%s --processes sport = :%d", p.Network, p.Port()),
				"a program has %s port %d", strings.ToUpper(p.Network), p.Port())
		case errors.Is(err, fs.ErrPermission):
			r.add(Wrong, noStart, raise, "%v: ports below 1024 need CAP_NET_BIND_SERVICE", err)
		case err != nil:
			r.add(Wrong, noStart, "", "%v", err)
		default:
			_ = l.Close()
		}
	}
	return "free", nil
}

func checkConntrack(_ context.Context, m *Machine, r *report) (string, error) {
	const prefix = "/proc/sys/net/netfilter/nf_conntrack_"
	if _, err := m.read("/proc/sys/kernel/osrelease"); err != nil {
		return "", err // /proc/sys is hidden
	}
	most, err := m.number(prefix + "max")
	if err != nil {
		return "not in use", nil
	}
	count, err := m.number(prefix + "count")
	advice := fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d", max(2*most, 4*m.MaxSessions))
	switch {
	case err != nil:
		return "", err
	case count >= most:
		r.add(Wrong, "the kernel drops packets of new clients", advice, "the table of %d flows is full", most)
	case count+m.MaxSessions > most:
		r.add(Better, "the kernel drops packets of new clients before --max-sessions is reached", advice,
			"%d of %d flows are in use: --max-sessions may add %d", count, most, m.MaxSessions)
	}
	return fmt.Sprintf("%d of %d flows are in use", count, most), nil
}

func checkClock(_ context.Context, m *Machine, r *report) (string, error) {
	ok, err := m.synced()
	if !ok && err == nil {
		r.add(Better, "tokens and certificates are valid by this clock", "timedatectl set-ntp true",
			"nothing keeps the clock right")
	}
	return "synchronized", err
}

func checkFiles(_ context.Context, m *Machine, r *report) (string, error) {
	const least, some = 256, 1024 // maps, sockets; a connection to the page or by RTSP has one each
	const advice = "ulimit -n 65536, or LimitNOFILE=65536 in the unit, as the package has it"
	text, err := m.field("/proc/self/limits", "Max open files ")
	limit, errNumber := strconv.ParseUint(text, 10, 64)
	text = "at most " + text + " files"
	switch {
	case err != nil || errNumber != nil: // unlimited
	case limit < least:
		r.add(Wrong, "the relay cannot open the maps of the fast path", advice, "%s", text)
	case limit < some:
		r.add(Better, "no more connections to the page and of RTSP clients at a time", advice, "%s", text)
	}
	return text, err
}

func checkMemory(_ context.Context, m *Machine, r *report) (string, error) {
	const beside = 64 << 20 // the program, and what it knows of sessions
	text, err := m.field("/proc/meminfo", "MemAvailable:")
	if err != nil {
		return "", err
	}
	kib, err := strconv.ParseUint(text, 10, 64)
	if limit, errGroup := m.number("/sys/fs/cgroup/memory.max"); errGroup == nil { // of a container
		kib = min(kib, limit>>10)
	}
	if need := m.CacheBytes + beside; kib<<10 < need && err == nil {
		r.add(Wrong, "the kernel ends the relay when its cache is full", "--cache-size, with fewer MiB",
			"%d MiB are free: the cache and the relay need %d", kib>>10, need>>20)
	}
	return fmt.Sprintf("%d MiB are free", kib>>10), err
}
