package relay

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
)

// to connects a client with an authority and a path.
func (b *bench) to(authority, path string) *client {
	return b.connect(func(cfg *session.Config) { cfg.Authority, cfg.Path = authority, path })
}

func TestScopes(t *testing.T) {
	tests := []struct {
		name   string
		scope  Scoping
		a, b   [2]string // authorities and paths
		shared bool
	}{
		{"default", nil, [2]string{"one.example", "/a"}, [2]string{"two.example", "/b"}, true},
		{"same path", ScopeByPath, [2]string{"one.example", "/a"}, [2]string{"two.example", "/a"}, true},
		{"no path", ScopeByPath, [2]string{"one.example", ""}, [2]string{"one.example", "/"}, true},
		{"other path", ScopeByPath, [2]string{"one.example", "/a"}, [2]string{"one.example", "/b"}, false},
		{"other query", ScopeByPath, [2]string{"one.example", "/a?1"}, [2]string{"one.example", "/a?2"}, false},
		{"same URL", ScopeByURL, [2]string{"One.example:4443", "/a"}, [2]string{"one.example:4443", "/a"}, true},
		{"default port", ScopeByURL, [2]string{"one.example:443", "/a"}, [2]string{"one.example", "/a"}, true},
		{"other port", ScopeByURL, [2]string{"one.example:8443", "/a"}, [2]string{"one.example", "/a"}, false},
		{"other authority", ScopeByURL, [2]string{"one.example", "/a"}, [2]string{"two.example", "/a"}, false},
		{"other path of the authority", ScopeByURL, [2]string{"one.example", "/a"}, [2]string{"one.example", "/b"},
			false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onBench(t, Config{Scope: tt.scope}, func(b *bench) {
				pub := b.to(tt.a[0], tt.a[1])
				pub.serve(&source{})
				pub.announce("live")
				b.to(tt.a[0], tt.a[1]).offers(nil)

				c := b.to(tt.b[0], tt.b[1])
				names := c.mustWatch("live")
				synctest.Wait()
				require.Equal(t, tt.shared, len(names.now()) > 0, "namespaces")
				taker := b.to(tt.b[0], tt.b[1])
				o := taker.acceptOffers(&offered{})
				taker.mustSubscribeTracks(moqt.Parameters{}, "live")
				require.Equal(t, tt.shared, len(o.subs) > 0, "tracks")
				_, _, err := c.subscribe(moqt.Parameters{})
				_, status := c.TrackStatus(b.ctx, moqt.TrackStatus{Track: video})
				if tt.shared {
					require.NoError(t, err)
					require.NoError(t, status)
					return
				}
				b.refused(err, moqt.RequestDoesNotExist)
				b.refused(status, moqt.RequestDoesNotExist)
				b.refused(c.fetch(standalone(at(0, 0), at(1, 0))).err, moqt.RequestDoesNotExist)
			})
		})
	}
}
