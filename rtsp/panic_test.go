package rtsp

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/logs/logstest"
	"sluice/moqt"
	"sluice/relay"
)

// trapdoor refuses the namespace "trap" with an error that panics when the relay looks at it: a panic of the Authorizer
// itself would be a refusal.
type trapdoor struct{}

func (trapdoor) Authorize(_ context.Context, r relay.AuthRequest) (relay.Grant, error) {
	if r.Namespace.HasPrefix(moqt.Namespace{"trap"}) {
		return relay.Grant{}, trapError{}
	}
	return relay.Grant{}, nil
}

type trapError struct{}

func (trapError) Error() string { return "a trap" }
func (trapError) As(any) bool   { panic("a bug") }

// TestPanicsOfTheLibrary checks that a panic of the goroutines in which the library reads requests and packets ends the
// session of the client that has sent them, and no other.
func TestPanicsOfTheLibrary(t *testing.T) {
	t.Parallel()
	packet := func(p gortsplib.Protocol) func(*Server) {
		return func(s *Server) {
			pub := publishTo(t, s, "/live/trap", p)
			for _, st := range s.all() {
				if st.publisher.namespace.Equal(moqt.Namespace{"live", "trap"}) {
					session := st.publisher.session
					session.OnPacketRTPAny(func(*description.Media, format.Format, *rtp.Packet) { panic("a bug") })
				}
			}
			pub.frames(1)
			require.Error(t, pub.client.Wait())
		}
	}
	for name, provoke := range map[string]func(*Server){
		"DESCRIBE":   func(s *Server) { require.Error(t, describe(t, s, "/trap/cam")) },
		"ANNOUNCE":   func(s *Server) { require.Error(t, announce(t, s, "127.0.0.1", "/trap/cam", broadcast())) },
		"RTP by TCP": packet(gortsplib.ProtocolTCP),
		"RTP by UDP": packet(gortsplib.ProtocolUDP),
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(name, "RTP") {
				t.Skip("the test replaces a callback of the library while that reads packets: a data race")
			}
			t.Parallel()
			log := new(logstest.Buffer)
			s := newServer(t, func(c *Config) {
				c.Relay = newRelay(t, relay.Config{Authorizer: trapdoor{}})
				c.Logger = slog.New(slog.NewTextHandler(log, nil))
			})
			pub := publishTo(t, s, "/live/cam", gortsplib.ProtocolUDP)
			sub := play(t, s, "/live/cam", gortsplib.ProtocolTCP)
			provoke(s)
			eventually(t, "one is left", func() bool { return counted(t, s, "publishers") == 1 })
			pub.frames(20)
			sub.expects(1, 20)
			eventually(t, "a line in the log", func() bool { return strings.Contains(log.String(), "a bug") })
		})
	}
}

// TestDecodeErrorOfAnEndingSession has a session end, which holds the session's lock and waits for the lock that the
// library holds when it reports a packet of the session. The report needs no lock of the session, else both would wait,
// and the server would read no packets any more.
func TestDecodeErrorOfAnEndingSession(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	publishTo(t, s, "/live/cam", gortsplib.ProtocolUDP)
	session := s.all()[0].publisher.session
	lock := (*sync.RWMutex)(reflect.ValueOf(session).Elem().FieldByName("propsMutex").Addr().UnsafePointer())
	lock.Lock()
	defer lock.Unlock()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		s.plain.OnDecodeError(&gortsplib.ServerHandlerOnDecodeErrorCtx{Session: session, Error: errors.New("cut off")})
	}()
	select {
	case <-reported:
	case <-time.After(time.Minute):
		t.Error("it waits for the session")
	}
	require.Equal(t, 1.0, counted(t, s, "ignored_packets_total", ignoredMalformed))
}
