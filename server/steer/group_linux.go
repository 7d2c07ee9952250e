package steer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/server/steer/bpf"
)

// Group is the sockets that share a port, as one of the processes sees it. Its methods may be called on any goroutine.
type Group struct {
	number  Number
	maps    bpf.SteerMaps
	sockets []*net.UDPConn // of this process, which it does not close
	readers []reader       // of these sockets
}

// Create makes a group of a socket whose address no other socket shares, and opens more, so that this process has that
// many. All datagrams come to these sockets.
func Create(c *net.UDPConn, sockets int) (*Group, error) {
	var objects bpf.SteerObjects
	if err := bpf.LoadSteerObjects(&objects, nil); err != nil {
		return nil, fmt.Errorf("steer datagrams: load the program: %w", explain(err))
	}
	defer objects.SteerPrograms.Close() // the sockets keep the program
	g := &Group{maps: objects.SteerMaps, sockets: []*net.UDPConn{c}}
	err := g.attach(c, objects.Steer)
	if err == nil {
		err = g.open(c.LocalAddr().(*net.UDPAddr), sockets)
	}
	if err == nil {
		err = g.Promote(g.number)
	}
	if err != nil {
		err = errors.Join(err, closeAll(g.sockets[1:]), setOption(c, unix.SO_REUSEPORT, 0), g.Close())
		return nil, fmt.Errorf("steer datagrams: %w", err)
	}
	return g, nil
}

// explain replaces an error of the kernel by its cause, if that is a missing capability.
func explain(err error) error {
	if errors.Is(err, unix.EPERM) {
		return errors.New("missing CAP_BPF")
	}
	return err
}

// attach makes the kernel run the program for datagrams to the address of c.
//
// A program is attached to a group, and the kernel makes the group of a bound socket when a second one is bound to the
// same address. Datagrams that arrive in between may go to the second socket and are lost. So this is done once, before
// there are clients. Sockets that join later find the program in place.
func (g *Group) attach(c *net.UDPConn, program *ebpf.Program) error {
	if err := setOption(c, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	second, err := bind(c.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return err
	}
	defer second.Close()
	return setOption(c, unix.SO_ATTACH_REUSEPORT_EBPF, program.FD())
}

// Maps are the file descriptors of a group's maps, which another process joins it with: of the sockets, of the number
// of the newest process, of the verdicts, of the processes' messages to each other, of the readers, and of arrivals.
type Maps [6]int

// Maps returns the maps of the group. They are open until the group is closed.
func (g *Group) Maps() (fds Maps) {
	for i, m := range g.all() {
		fds[i] = (*m).FD()
	}
	return fds
}

// all returns all maps, in the order of Maps.
func (g *Group) all() [len(Maps{})]**ebpf.Map {
	m := &g.maps
	return [...]**ebpf.Map{&m.Sockets, &m.Newest, &m.Verdicts, &m.Processes, &m.Readers, &m.Arrived}
}

// Join opens sockets at the address of a group, for the process with the number that [Group.Next] has returned. It
// takes the file descriptors.
func Join(addr *net.UDPAddr, number Number, sockets int, maps Maps) (*Group, error) {
	g := &Group{number: number}
	var errs []error
	for i, m := range g.all() {
		var err error
		*m, err = ebpf.NewMapFromFD(maps[i])
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	if err == nil {
		err = g.open(addr, sockets)
	}
	if err != nil {
		return nil, fmt.Errorf("steer datagrams: %w", errors.Join(err, closeAll(g.sockets), g.Close()))
	}
	return g, nil
}

// open opens the sockets that are missing, and enters all. It fails if another process has the number, because this one
// has come too late.
func (g *Group) open(addr *net.UDPAddr, sockets int) error {
	for len(g.sockets) < sockets {
		c, err := bind(addr)
		if err != nil {
			return err
		}
		g.sockets = append(g.sockets, c)
	}
	var err error
	if g.readers, err = g.newReaders(); err != nil {
		return err
	}
	var errs []error
	for i, c := range g.sockets {
		errs = append(errs, control(c, func(fd int) error {
			return g.maps.Sockets.Update(g.at(i), uint64(fd), ebpf.UpdateNoExist)
		}))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return g.Tell(0)
}

// at returns where the maps have a socket of this process.
func (g *Group) at(socket int) uint32 { return uint32(g.number)*MaxSockets + uint32(socket) }

func closeAll(sockets []*net.UDPConn) error {
	var errs []error
	for _, c := range sockets {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Sockets returns the sockets of this process, by number.
func (g *Group) Sockets() []*net.UDPConn { return g.sockets }

// Next returns a number that no process has. The numbers of processes that have ended come last.
func (g *Group) Next() (Number, error) {
	for n := g.number + 1; n != g.number; n++ {
		taken, err := g.has(n)
		if err != nil {
			return 0, fmt.Errorf("steer datagrams: find a number for a process: %w", err)
		}
		if !taken {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%d processes share the port, which is the most: end one", Numbers)
}

// has reports whether a process with that number has sockets.
func (g *Group) has(n Number) (bool, error) {
	var cookie uint64
	err := g.maps.Sockets.Lookup(uint32(n)*MaxSockets, &cookie)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Tell tells the other processes how many sessions this one still has. Only draining processes do that.
func (g *Group) Tell(sessions int) error {
	p := bpf.SteerProcess{
		Pid: uint32(os.Getpid()), Sessions: uint32(sessions), Sockets: uint32(len(g.sockets)),
	}
	if err := g.maps.Processes.Put(uint32(g.number), p); err != nil {
		return fmt.Errorf("steer datagrams: tell the number of sessions: %w", err)
	}
	return nil
}

// Draining returns the other processes that have told that they still have sessions.
func (g *Group) Draining() (all []Process, err error) {
	for n := g.number + 1; n != g.number; n++ {
		there, err := g.has(n)
		var p bpf.SteerProcess
		if err == nil && there {
			err = g.maps.Processes.Lookup(uint32(n), &p)
		}
		if err != nil {
			return nil, fmt.Errorf("steer datagrams: look for other processes: %w", err)
		}
		if p.Sessions > 0 {
			all = append(all, Process{int(p.Pid), int(p.Sessions)})
		}
	}
	return all, nil
}

// Promote makes the process with a number the newest, which gets new clients.
func (g *Group) Promote(n Number) error {
	if err := g.maps.Newest.Put(uint32(0), uint32(n)); err != nil {
		return fmt.Errorf("steer datagrams: name the newest process: %w", err)
	}
	return nil
}

// Counts returns how many datagrams the program gave to a socket, by the reason.
func (g *Group) Counts() (map[string]uint64, error) {
	counts := make(map[string]uint64, len(verdictNames))
	var perCPU []uint64
	for verdict, name := range verdictNames {
		if err := g.maps.Verdicts.Lookup(uint32(verdict), &perCPU); err != nil {
			return nil, fmt.Errorf("steer datagrams: read the counter of %s: %w", name, err)
		}
		for _, n := range perCPU {
			counts[name] += n
		}
	}
	return counts, nil
}

// verdictNames are the labels of the program's counters.
var verdictNames = [bpf.SteerSteerVerdictSTEER_VERDICTS]string{
	bpf.SteerSteerVerdictSTEER_NAMED:  "named",
	bpf.SteerSteerVerdictSTEER_NEWEST: "newest",
	bpf.SteerSteerVerdictSTEER_GONE:   "gone",
	bpf.SteerSteerVerdictSTEER_ANY:    "any",
}

// Close closes the maps. The program goes on for as long as there are sockets in the group.
func (g *Group) Close() error {
	var errs []error
	for _, m := range g.all() {
		if *m != nil {
			errs = append(errs, (*m).Close())
		}
	}
	return errors.Join(errs...)
}

// newReaders returns the readers of the sockets of this process. Nobody has told yet where they run.
func (g *Group) newReaders() ([]reader, error) {
	memory, err := g.maps.Readers.Memory()
	if err != nil {
		return nil, err
	}
	readers := make([]reader, len(g.sockets))
	for i := range readers {
		r := &readers[i]
		r.memory, r.at = memory, int64(g.at(i))*int64(unsafe.Sizeof(r.noted))
		if err := r.write(0); err != nil {
			return nil, err
		}
	}
	return readers, nil
}

// Woken notes on which CPU the reader of a socket runs. The reader calls it when it has woken. The program reads the
// note for each datagram, so Woken writes it only if it has changed.
func (g *Group) Woken(socket int) {
	var at uint32
	if _, _, errno := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&at)), 0, 0); errno != 0 {
		return
	}
	if r := &g.readers[socket]; r.noted != uint64(at)+1 {
		_ = r.write(uint64(at) + 1) // cannot fail: it did not at first
	}
}

// Arrivals returns how many datagrams came to each socket of this process on the CPU that its reader had woken on last,
// and on others. Processes that share the port are counted together.
func (g *Group) Arrivals() ([]Arrivals, error) {
	all := make([]Arrivals, len(g.sockets))
	var perCPU []bpf.SteerArrivals
	for i := range all {
		if err := g.maps.Arrived.Lookup(uint32(i), &perCPU); err != nil {
			return nil, fmt.Errorf("steer datagrams: read the counters of socket %d: %w", i, err)
		}
		for _, a := range perCPU {
			all[i].SameCPU += a.SameCpu
			all[i].OtherCPU += a.OtherCpu
		}
	}
	return all, nil
}

// bind binds a socket that shares its address with other such sockets of the same user.
func bind(addr *net.UDPAddr) (*net.UDPConn, error) {
	share := func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) {
			err = os.NewSyscallError("setsockopt", unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		})
		return errors.Join(cerr, err)
	}
	c, err := (&net.ListenConfig{Control: share}).ListenPacket(context.Background(), "udp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

func setOption(c *net.UDPConn, option, value int) error {
	return control(c, func(fd int) error {
		return os.NewSyscallError("setsockopt", unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, value))
	})
}

// control calls f with the file descriptor of a socket.
func control(c *net.UDPConn, f func(fd int) error) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = f(int(fd)) })
	return errors.Join(cerr, err)
}
