package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/quic-go/quic-go"

	"sluice/fastpath"
	"sluice/media"
	"sluice/moqt"
	"sluice/relay"
	"sluice/server"
	"sluice/transport"
)

// relayServer is a relay with its UDP port and its media sender.
type relayServer struct {
	relay    *relay.Relay
	listener *transport.Listener
	log      *slog.Logger
	tasks    sync.WaitGroup
	stop     context.CancelFunc // ends the tasks that are not sessions

	ready    chan struct{} // closed when loop and sender are valid, or loop is nil because something failed
	loop     *media.Loop
	sender   media.SenderConfig
	drop     bool               // give each sender a policy
	fastPath *fastpath.FastPath // nil: off
}

// relayServerConfig is the configuration of a relayServer.
type relayServerConfig struct {
	Listen    string
	Transport transport.Config // all but Protocols and NewHooks
	Relay     relay.Config
	FastPath  fastPathConfig
	Drop      bool // by priority, for congested subscribers
}

// listenRelay opens the port. Nothing is served before serve is called.
func listenRelay(cfg relayServerConfig) (*relayServer, error) {
	s := &relayServer{log: cmp.Or(cfg.Relay.Logger, slog.Default()), stop: func() {}, ready: make(chan struct{}), drop: cfg.Drop}
	t := cfg.Transport
	t.NewHooks = s.newHooks
	if cfg.FastPath.Mode != "off" {
		t.Coalesce = s.newCoalescing()
	}
	t.Protocols = moqt.ALPNs()
	var err error
	if s.listener, err = transport.Listen(cfg.Listen, t); err != nil {
		return nil, err
	}
	err = s.prepare(cfg)
	close(s.ready)
	if err != nil {
		return nil, errors.Join(err, s.listener.Close(), s.closeFastPath())
	}
	return s, nil
}

// prepare makes all that connections need.
func (s *relayServer) prepare(cfg relayServerConfig) (err error) {
	if s.fastPath, err = openFastPath(cfg.FastPath, s.listener.Addr().(*net.UDPAddr), s.log); err != nil {
		return err
	}
	loop := media.Config{Logger: s.log}
	if s.fastPath != nil {
		cfg.Relay.FastPath, loop.Memory = s.fastPath, s.fastPath
		s.sender.MaxUDPPayloadSize = fastpath.MaxUDPPayloadSize
	}
	if s.relay, err = relay.New(cfg.Relay); err != nil {
		return err
	}
	s.sender.Events = s.relay.Events()
	s.loop, err = media.NewLoop(s.listener.PacketConn(), loop)
	return err
}

// newHooks makes the media sender of a connection, which may come before Listen returns.
func (s *relayServer) newHooks(net.PacketConn) quic.Hooks {
	<-s.ready
	if s.loop == nil {
		return nil // Listen's caller reports it
	}
	sender := s.sender
	if s.drop {
		sender.DropPolicy = new(media.PriorityDrop)
	}
	return s.loop.NewSender(sender)
}

// serve serves all who connect until the context is done. Those who connect after that are turned away at once, until drain ends.
func (s *relayServer) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	s.tasks.Go(func() { failed <- s.accept() })
	sweep, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.tasks.Go(func() { s.relay.Run(sweep) })
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func (s *relayServer) accept() error {
	for {
		conn, err := s.listener.Accept(context.Background())
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		s.tasks.Go(func() { s.serveConn(conn) })
	}
}

func (s *relayServer) serveConn(conn transport.Conn) {
	if err := s.relay.Serve(context.Background(), conn); err != nil {
		s.log.Debug("session failed", "peer", conn.RemoteAddr(), "error", err)
	}
}

// drain sends all peers away, to another relay if there is one, waits until they have left or the time is over, and closes the port.
func (s *relayServer) drain(uri string, timeout time.Duration) error {
	// Sessions end with GOAWAY_TIMEOUT by themselves; the margin is for their last messages.
	ctx, cancel := context.WithTimeout(context.Background(), timeout+time.Second)
	defer cancel()
	s.relay.Drain(ctx, uri, timeout)
	err := errors.Join(s.listener.Close(), s.loop.Close())
	s.stop()
	s.tasks.Wait()
	return errors.Join(err, s.closeFastPath())
}

// alive reports whether the relay is not stuck: whether all its locks can be taken.
func (s *relayServer) alive() bool {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		s.Collect(ch)
	}()
	timeout := time.After(time.Second)
	for {
		select {
		case _, more := <-ch:
			if !more {
				return true
			}
		case <-timeout:
			go func() {
				for range ch {
				}
			}()
			return false
		}
	}
}

// Describe implements [prometheus.Collector].
func (s *relayServer) Describe(ch chan<- *prometheus.Desc) {
	s.relay.Describe(ch)
	for _, m := range loopMetrics {
		ch <- m.desc
	}
	ch <- loopErrors
	ch <- fastPathReasons
}

// Collect implements [prometheus.Collector].
func (s *relayServer) Collect(ch chan<- prometheus.Metric) {
	s.relay.Collect(ch)
	stats := s.loop.Stats()
	for _, m := range loopMetrics {
		ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&stats))
	}
	for reason, n := range stats.Errors {
		ch <- prometheus.MustNewConstMetric(loopErrors, prometheus.CounterValue, float64(n), reason.String())
	}
	s.collectFastPath(ch)
}

var loopMetrics = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*media.LoopStats) float64
}{
	{
		prometheus.NewDesc("sluice_media_packets_total", "QUIC packets with media that were handed to the system.", nil, nil),
		prometheus.CounterValue, func(s *media.LoopStats) float64 { return float64(s.Packets) },
	},
	{
		prometheus.NewDesc("sluice_fastpath_media_packets_total", "QUIC packets with media that the kernel sent by itself.", nil, nil),
		prometheus.CounterValue, func(s *media.LoopStats) float64 { return float64(s.Counters.ForwarderPackets) },
	},
	{
		prometheus.NewDesc("sluice_media_messages_total", "Datagrams and trains of segments that were handed to the system.", nil, nil),
		prometheus.CounterValue, func(s *media.LoopStats) float64 { return float64(s.Messages) },
	},
	{
		prometheus.NewDesc("sluice_media_system_calls_total", "System calls that sent them.", nil, nil),
		prometheus.CounterValue, func(s *media.LoopStats) float64 { return float64(s.Calls) },
	},
	{
		prometheus.NewDesc("sluice_media_gso", "1 if the kernel segments trains of packets (UDP GSO).", nil, nil),
		prometheus.GaugeValue, func(s *media.LoopStats) float64 {
			if s.GSO {
				return 1
			}
			return 0
		},
	},
}

var loopErrors = prometheus.NewDesc("sluice_media_send_errors_total", "Failures to send, by reason.", []string{"reason"}, nil)

// status describes the relay's sessions and its fast path.
func (s *relayServer) status() (st server.Status, err error) {
	st.Sessions = s.relay.Sessions()
	if s.fastPath != nil {
		st.FastPath, err = s.fastPath.Counts()
	}
	return st, err
}
