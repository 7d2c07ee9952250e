package natsengine

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"sluice/clock"
	"sluice/internal/logs"
)

const (
	// maxQueue is how many messages NATS may hand over before they are queued. Those beyond it get lost, which costs a
	// snapshot.
	maxQueue = 1 << 14
	// writeTimeout is how long a connection may take no data, and closeTimeout how long Close waits for the last ones.
	writeTimeout = 5 * time.Second
	closeTimeout = time.Second
)

// Engine is a connection to NATS, and perhaps the server. It implements cluster.Engine.
type Engine struct {
	log      *logs.Sparse
	logger   *slog.Logger
	messages chan *nats.Msg
	end      chan struct{}
	running  sync.WaitGroup
	incoming *queue // of messages, for the node
	outgoing *queue
	// connected is kept here: the methods of a connection wait while it writes.
	connected atomic.Bool
	conn      atomic.Pointer[nats.Conn]     // nil: the server has not started yet
	server    atomic.Pointer[server.Server] // nil: it is of another process, or has not started yet

	mu       sync.Mutex // held while subscriptions are written, which may take writeTimeout
	closed   bool
	sent     chan struct{} // closed when all messages were given to the connection; nil: there is none
	patterns []string
}

func newEngine(log *slog.Logger) *Engine {
	return &Engine{
		log: logs.NewSparse(log), logger: log, messages: make(chan *nats.Msg, maxQueue), end: make(chan struct{}),
		incoming: newQueue(maxIncoming), outgoing: newQueue(maxOutgoing),
	}
}

// options returns the options of all connections. Nothing is kept for a server that is away: beats of the past would
// change nothing, and other lost messages cost a snapshot.
func (e *Engine) options(node string) []nats.Option {
	return []nats.Option{
		nats.Name(node), nats.NoEcho(), nats.MaxReconnects(-1), nats.ReconnectWait(500 * time.Millisecond),
		nats.ReconnectBufSize(-1), nats.FlusherTimeout(writeTimeout),
		nats.ConnectHandler(func(*nats.Conn) { e.connected.Store(true) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			e.connected.Store(false)
			if err != nil {
				e.logger.Warn("the NATS server is away; the relay goes on with the routes that it knows", "err", err)
			}
		}),
		nats.ReconnectHandler(func(c *nats.Conn) {
			e.connected.Store(true)
			e.logger.Info("the NATS server is there again", "address", c.ConnectedAddr())
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			e.log.Log(slog.LevelWarn, "NATS", "NATS reports an error", "err", err)
		}),
	}
}

// attach begins to use a connection, and the server if it is ours.
func (e *Engine) attach(conn *nats.Conn, s *server.Server) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.conn.Store(conn)
	e.server.Store(s)
	if err := e.subscribeLocked(e.patterns); err != nil {
		return err
	}
	e.sent = make(chan struct{})
	go e.send(conn, e.sent)
	return nil
}

// Publish implements cluster.Engine.
func (e *Engine) Publish(subject string, data []byte) error {
	if e.conn.Load() == nil {
		return nil // it gets lost
	}
	return e.outgoing.push(message{subject, data})
}

// send gives the messages to a connection, until the queue is closed.
func (e *Engine) send(conn *nats.Conn, done chan<- struct{}) {
	defer close(done)
	for {
		m, ok := e.outgoing.pop()
		if !ok {
			return
		}
		err := conn.Publish(m.subject, m.data)
		if err != nil && !errors.Is(err, nats.ErrReconnectBufExceeded) && !errors.Is(err, nats.ErrConnectionClosed) {
			e.log.Log(slog.LevelWarn, "publish", "a message to the cluster is lost", "err", err)
		} // else the server is away, and the log says so, or the node has left
	}
}

// Subscribe implements cluster.Engine. All subscriptions share a queue, which keeps the order of a node's messages.
func (e *Engine) Subscribe(f func(subject string, data []byte), patterns ...string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.patterns = patterns
	if err := e.subscribeLocked(patterns); err != nil {
		return err
	}
	e.running.Go(e.receive)
	e.running.Go(func() {
		for {
			m, _ := e.incoming.pop() // there is none at the end only
			select {
			case <-e.end:
				return
			default:
				f(m.subject, m.data)
			}
		}
	})
	return nil
}

// receive queues what NATS hands over. The channel between them bounds messages, but not their bytes.
func (e *Engine) receive() {
	for {
		select {
		case m := <-e.messages:
			if e.incoming.push(message{m.Subject, m.Data}) != nil {
				e.log.Log(slog.LevelWarn, "receive", "messages of the cluster come too fast; some are lost")
			}
		case <-e.end:
			return
		}
	}
}

func (e *Engine) subscribeLocked(patterns []string) error {
	conn := e.conn.Load()
	if conn == nil {
		return nil
	}
	for _, p := range patterns {
		if _, err := conn.ChanSubscribe(p, e.messages); err != nil {
			return err
		}
	}
	return nil
}

// Present implements cluster.Engine.
func (e *Engine) Present() bool { return e.connected.Load() && !e.Alone() }

// Alone implements cluster.Engine. An embedded server that has no other one is alone.
func (e *Engine) Alone() bool {
	s := e.server.Load()
	return s != nil && s.NumRoutes() == 0
}

// Close implements cluster.Engine.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	conn, sent := e.conn.Load(), e.sent
	e.mu.Unlock()
	e.outgoing.close()
	if conn != nil {
		select {
		case <-sent:
			_ = conn.FlushTimeout(closeTimeout) // fails only if the server is away
		case <-time.After(closeTimeout):
		}
	}
	close(e.end)
	e.incoming.close()
	e.running.Wait()
	if conn := e.conn.Load(); conn != nil {
		conn.Close()
	}
	if s := e.server.Load(); s != nil {
		s.Shutdown()
		s.WaitForShutdown()
	}
	return nil
}

// start starts the server, and connects to it.
func (e *Engine) start(cfg *EmbedConfig, opts *server.Options) error {
	if err := probe(cfg.Listen); err != nil {
		return err
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	s.SetLoggerV2(&serverLog{cfg.Logger}, false, false, false)
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		s.Shutdown()
		return fmt.Errorf("embedded NATS server at %s: it has not started within %v", cfg.Listen, startTimeout)
	}
	conn, err := nats.Connect("", append(e.options(cfg.Node), nats.InProcessServer(s), nats.Token(cfg.secret))...)
	if err == nil {
		err = e.attach(conn, s)
	}
	if err != nil {
		s.Shutdown()
		return fmt.Errorf("embedded NATS server: %w", err)
	}
	if cfg.TLS.isSet() {
		e.running.Go(func() { e.followAuthority(cfg, s) })
	}
	return nil
}

// followAuthority lets the server use another authority when the file has changed. Connections that there are stay.
func (e *Engine) followAuthority(cfg *EmbedConfig, s *server.Server) {
	seen, _ := os.ReadFile(cfg.TLS.CAFile)
	for range clock.Every(cfg.reread, e.end) {
		text, err := os.ReadFile(cfg.TLS.CAFile)
		if err == nil && bytes.Equal(text, seen) {
			continue
		}
		opts, err := cfg.options()
		if err == nil {
			err = s.ReloadOptions(opts)
		}
		if err != nil {
			e.log.Log(slog.LevelError, "authority", "cannot read the authority again; the old one stays in use",
				"err", err)
			continue
		}
		seen = text
		e.logger.Info("read the authority of the cluster again", "file", cfg.TLS.CAFile)
	}
}

// startLater tries to start the server until it has started, or the engine is closed.
func (e *Engine) startLater(cfg *EmbedConfig, opts *server.Options) {
	for range clock.Every(retryInterval, e.end) {
		err := e.start(cfg, opts)
		if err == nil {
			return
		}
		e.log.Log(slog.LevelInfo, "start", "the relay is not in the cluster yet; trying again", "err", err)
	}
}
