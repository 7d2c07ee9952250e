package session

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// lite plays a session with a peer that says it is an implementation whose mistakes are known. It returns what the
// session has logged.
func lite(t *testing.T, role Role, implementation string, strict bool, f func(*script, *handler)) string {
	t.Helper()
	var logged bytes.Buffer
	h := newHandler()
	set := setting{
		cfg:    Config{Role: role, Handler: h, Strict: strict},
		silent: true,
		log:    slog.New(slog.NewTextHandler(&logged, nil)),
	}
	play(t, set, func(p *script) {
		p.setup(&moqt.Setup{Implementation: implementation})
		<-p.s.Ready()
		f(p, h)
	})
	return logged.String()
}

// requireTolerated checks that a log has one line about a mistake.
func requireTolerated(t *testing.T, log, issue string) {
	t.Helper()
	require.Equal(t, 1, strings.Count(log, "tolerating"), log)
	require.Contains(t, log, issue)
}

// mistaken are peers whose mistakes are tolerated, or not.
var mistaken = map[string]struct {
	implementation string
	strict         bool
	tolerated      bool
}{
	"the one that errs": {"moq-lite-js", false, true},
	"strict":            {"moq-lite-js", true, false},
	"another":           {"moq-light", false, false},
}

func TestMisreadsLargestObject(t *testing.T) {
	for name, tt := range mistaken {
		t.Run(name, func(t *testing.T) {
			log := lite(t, Server, tt.implementation, tt.strict, func(p *script, h *handler) {
				for range 2 {
					e := p.request(&moqt.Subscribe{Track: testTrack})
					largest := &moqt.Location{Group: 7}
					pub := <-h.subscribes
					require.NoError(p, pub.Accept(moqt.Parameters{LargestObject: largest}, nil))
					if tt.tolerated {
						largest = nil
					}
					require.Equal(p, largest, e.receive().(*moqt.SubscribeOK).Parameters.LargestObject)
					require.NoError(p, pub.Done(moqt.DoneTrackEnded, ""))
				}
			})
			if tt.tolerated {
				requireTolerated(t, log, "moq-dev/moq/pull/3561")
			} else {
				require.NotContains(t, log, "tolerating")
			}
		})
	}
}

// A priority of 200 as a varint has two bytes.
func TestWritesOldPriority(t *testing.T) {
	for name, tt := range mistaken {
		t.Run(name, func(t *testing.T) {
			log := lite(t, Server, tt.implementation, tt.strict, func(p *script, h *handler) {
				b := p.encode(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{
					SubscriberPriority: new(uint8(0x7f)), GroupOrder: new(moqt.Descending),
				}})
				at := bytes.LastIndexByte(b, 0x7f)
				b = append(b[:at], append([]byte{0x80, 200}, b[at+1:]...)...)
				b[2]++ // the length
				p.raw(b)
				if !tt.tolerated {
					p.requireClosed(moqt.SessionProtocolViolation)
					return
				}
				parameters := (<-h.subscribes).Parameters()
				require.Equal(p, uint8(200), parameters.Priority())
				require.Equal(p, moqt.Descending, *parameters.GroupOrder)
			})
			if tt.tolerated {
				requireTolerated(t, log, "moq-dev/moq/issues/2864")
			}
		})
	}
}

// Releases that are mended say the same name.
func TestRightPeersAreReadAsTheDraftSays(t *testing.T) {
	log := lite(t, Server, "moq-lite-js", false, func(p *script, h *handler) {
		p.request(&moqt.Subscribe{Track: testTrack, Parameters: moqt.Parameters{SubscriberPriority: new(uint8(255))}})
		parameters := (<-h.subscribes).Parameters()
		require.Equal(p, uint8(255), parameters.Priority())
	})
	require.NotContains(t, log, "tolerating")
}

// Before SETUP nobody knows who the peer is.
func TestNothingIsToleratedBeforeSetup(t *testing.T) {
	play(t, setting{silent: true}, func(p *script) {
		require.False(p, p.s.Tolerates(MissesCurrentGroup))
		p.setup(&moqt.Setup{Implementation: "moq-lite-rs"})
		<-p.s.Ready()
		require.True(p, p.s.Tolerates(MissesCurrentGroup))
		require.True(p, p.s.Tolerates(FetchesWithoutPriority))
		require.False(p, p.s.Tolerates(MisreadsLargestObject))
	})
}

// A GROUP_ORDER of 0 means the publisher's order, in draft 14 only.
func TestWritesOldGroupOrder(t *testing.T) {
	for implementation, tolerated := range map[string]bool{"ShakaPlayer/v5.2.12": true, "another": false} {
		setup := &moqt.Setup{Implementation: implementation}
		client16(t, setup, Limits{}, func(r *raw16) {
			b, err := moqt.AppendMessage(nil, moqt.Draft16, &moqt.Subscribe{
				Track: testTrack, Parameters: moqt.Parameters{GroupOrder: new(moqt.Descending)},
			})
			require.NoError(r, err)
			require.EqualValues(r, moqt.Descending, b[len(b)-1])
			b[len(b)-1] = 0
			r.write(r.stream, b)
			if !tolerated {
				r.requireClosed(moqt.SessionProtocolViolation)
				return
			}
			require.Nil(r, (<-r.h.subscribes).Parameters().GroupOrder)
		})
	}
}

// A SUBSCRIBE_OK of draft 16 has the Track Properties after its parameters.
func TestMisreadsTrackProperties(t *testing.T) {
	properties, err := moqt.NewProperties(moqt.KeyValuePair{Type: 0x40, Value: 3})
	require.NoError(t, err)
	for implementation, want := range map[string]moqt.Properties{"ShakaPlayer/v5.2.12": nil, "another": properties} {
		client16(t, &moqt.Setup{Implementation: implementation}, Limits{}, func(r *raw16) {
			r.send(0, &moqt.Subscribe{Track: testTrack})
			pub := <-r.h.subscribes
			require.NoError(r, pub.Accept(moqt.Parameters{LargestObject: &moqt.Location{Group: 7}}, properties))
			ok := r.receive().(*moqt.SubscribeOK)
			require.Equal(r, want, ok.Properties)
			require.Equal(r, &moqt.Location{Group: 7}, ok.Parameters.LargestObject)
		})
	}
}
