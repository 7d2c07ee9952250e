package bench

import (
	"fmt"
	"io"
	"net"
	"sync"

	"sluice/lab"
)

// bulkFlow is a TCP connection between two hosts of the lab that carries as much as it can.
type bulkFlow struct {
	from, to *net.TCPConn // nil: not started
	ended    sync.WaitGroup
	received int64 // bytes; valid after stop
}

// start starts the flow. It uses the congestion control of the machine.
func (f *bulkFlow) start(from, to *lab.Host) error {
	var listener *net.TCPListener
	err := to.Do(func() (err error) {
		listener, err = net.ListenTCP("tcp", &net.TCPAddr{IP: to.Devices[0].IPv6.Addr().AsSlice()})
		return err
	})
	if err != nil {
		return fmt.Errorf("bulk flow: %w", err)
	}
	defer listener.Close()
	err = from.Do(func() (err error) {
		f.from, err = net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
		return err
	})
	if err == nil {
		f.to, err = listener.AcceptTCP()
	}
	if err != nil {
		return fmt.Errorf("bulk flow: %w", err)
	}
	f.ended.Go(func() { f.received, _ = io.Copy(io.Discard, f.to) }) // both end when stop closes the connection
	f.ended.Go(f.send)
	return nil
}

func (f *bulkFlow) send() {
	for zeros := make([]byte, 64<<10); ; {
		if _, err := f.from.Write(zeros); err != nil {
			return
		}
	}
}

// stop ends the flow, if it was started.
func (f *bulkFlow) stop() {
	if f.from != nil {
		_ = f.from.SetLinger(0) // unsent data is thrown away: nobody reads it
		f.from.Close()
	}
	if f.to != nil {
		f.to.Close()
	}
	f.ended.Wait()
}
