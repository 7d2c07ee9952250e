package media

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// proxyConfig is how a proxy treats packets.
type proxyConfig struct {
	loss, reorder, duplicate float64
	delay                    time.Duration // one way
	bothWays                 bool          // also towards the server
}

// proxy carries packets between one client and a server over a bad path.
type proxy struct {
	cfg    proxyConfig
	down   *net.UDPConn // towards the client
	server *net.UDPAddr
	client atomic.Pointer[net.UDPAddr]
	up     atomic.Pointer[net.UDPConn] // towards the server

	mu     sync.Mutex
	rng    *rand.Rand
	closed bool
	wg     sync.WaitGroup
}

func newProxy(t testing.TB, server net.Addr, cfg proxyConfig) *proxy {
	p := &proxy{cfg: cfg, server: server.(*net.UDPAddr), rng: rand.New(rand.NewPCG(1, 1))}
	var err error
	p.down, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	p.down.SetReadBuffer(4 << 20)
	p.rebind(t, net.IPv4(127, 0, 0, 1))
	p.wg.Go(p.fromClient)
	t.Cleanup(func() {
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.down.Close()
		p.up.Load().Close()
		p.wg.Wait()
	})
	return p
}

// rebind gives the client another address in the eyes of the server, as a NAT does.
func (p *proxy) rebind(t testing.TB, ip net.IP) {
	up, err := net.ListenUDP("udp4", &net.UDPAddr{IP: ip})
	require.NoError(t, err)
	up.SetReadBuffer(4 << 20)
	if old := p.up.Swap(up); old != nil {
		old.Close()
	}
	p.wg.Go(func() { p.fromServer(up) })
}

func (p *proxy) fromClient() {
	b := make([]byte, 2048)
	for {
		n, addr, err := p.down.ReadFromUDP(b)
		if err != nil {
			return
		}
		p.client.Store(addr)
		if !p.cfg.bothWays {
			p.up.Load().WriteToUDP(b[:n], p.server)
			continue
		}
		p.carry(b[:n], func(q []byte) { p.up.Load().WriteToUDP(q, p.server) })
	}
}

func (p *proxy) fromServer(up *net.UDPConn) {
	b := make([]byte, 2048)
	for {
		n, _, err := up.ReadFromUDP(b)
		if err != nil {
			return
		}
		p.carry(b[:n], func(q []byte) { p.down.WriteToUDP(q, p.client.Load()) })
	}
}

func (p *proxy) carry(b []byte, write func([]byte)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.rng.Float64() < p.cfg.loss {
		return
	}
	copies, late := 1, p.rng.Float64() < p.cfg.reorder
	if p.rng.Float64() < p.cfg.duplicate {
		copies = 2
	}
	for range copies {
		if p.cfg.delay == 0 && !late {
			write(b)
			continue
		}
		wait := p.cfg.delay
		if late {
			wait += time.Duration(p.rng.Int64N(int64(3 * time.Millisecond)))
		}
		q := append([]byte(nil), b...)
		time.AfterFunc(wait, func() { write(q) })
	}
}
