package rtsp

import (
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/auth"
	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/player/catalog"
	"sluice/player/cmaf"
	"sluice/relay"
	"sluice/server"
	"sluice/transport"
)

// tenantFile has two tenants, who may do everything in their own namespaces, and nothing elsewhere.
func tenantFile(t *testing.T) *auth.TokenFile {
	t.Helper()
	tokens, _ := tokenFile(t, "alice all alice\nmallory all mallory\neve subscribe *\nrelay subscribe *\n")
	return tokens
}

func tokenOfTenant(name string) moqt.Token {
	return moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte(name)}
}

// trap is a publisher that has nothing but a catalog, and perhaps what other sends to those who ask for another track.
type trap struct {
	session.Unsupported
	content []byte
	other   func(*session.Publication)
}

// HandleSubscribe implements [session.Handler].
func (c trap) HandleSubscribe(p *session.Publication) {
	if p.Track().Name != catalog.CommonName && c.other != nil {
		if p.Accept(moqt.Parameters{}, nil) == nil {
			c.other(p)
		}
		return
	}
	if p.Track().Name != catalog.CommonName {
		_ = p.Reject(&moqt.RequestError{Code: moqt.RequestDoesNotExist}) // fails only if the request is over
		return
	}
	h := moqt.SubgroupHeader{GroupID: 1, FirstObject: true}
	if p.Accept(moqt.Parameters{}, nil) != nil {
		return
	}
	stream, err := p.OpenSubgroup(p.Context(), h)
	if err != nil {
		return
	}
	e := moqt.NewSubgroupEncoder(p.Session().Version().DataLayout(), h)
	b, _ := e.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(c.content))})
	_, _ = stream.Write(append(b, c.content...)) // nobody may want it any more
	_ = stream.Close()
	<-p.Context().Done()
}

// publishRaw publishes the objects of a handler.
func publishRaw(t *testing.T, r *server.Server, ns moqt.Namespace, token string, h session.Handler) {
	t.Helper()
	cfg := transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs()}
	conn, err := transport.Dial(t.Context(), "moqt://"+r.Addr().String(), cfg)
	require.NoError(t, err)
	s, err := session.New(conn, session.Config{
		Handler: h, Authority: "localhost", Path: "/", Tokens: []moqt.Token{tokenOfTenant(token)},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(t.Context()) }()
	t.Cleanup(func() { s.Close(moqt.SessionNoError, ""); <-ended })
	<-s.Ready()
	p, err := s.PublishNamespace(t.Context(), moqt.PublishNamespace{Namespace: ns})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
}

// TestTenants has a catalog name the track of another tenant. RTSP players get that only if they may subscribe to it
// themselves, from this relay and from an upstream relay, at which the relay has a token for everything.
func TestTenants(t *testing.T) {
	t.Parallel()
	t.Run("here", func(t *testing.T) {
		t.Parallel()
		r, s := newMoQ(t, tenantFile(t))
		testTenants(t, r, s)
	})
	t.Run("by an upstream relay", func(t *testing.T) {
		t.Parallel()
		origin, _ := newMoQ(t, tenantFile(t))
		edge, s := newMoQBehind(t, tenantFile(t), server.UpstreamConfig{
			Routes:    []server.UpstreamRoute{{URLs: []string{"moqt://" + origin.Addr().String()}}},
			Tokens:    []moqt.Token{tokenOfTenant("relay")},
			Transport: transport.ClientConfig{Insecure: true},
		})
		eventually(t, "the upstream relay", func() bool {
			return slices.ContainsFunc(edge.Relay().Sessions(), func(st relay.SessionStatus) bool {
				return st.Upstream != ""
			})
		})
		testTenants(t, origin, s)
	})
}

func testTenants(t *testing.T, origin *server.Server, s *Server) {
	f := newFilm(t, "avc.mp4")
	in, err := cmaf.ParseInit(f.init)
	require.NoError(t, err)
	private, _ := publish(t, origin, moqt.Namespace{"alice", "room"}, catalog.CMAF, tokenOfTenant("alice"))
	_, err = private.Write(f.init)
	require.NoError(t, err)
	view(t, s, "/alice/room?token=alice")
	content, err := catalog.Catalog{Tracks: []catalog.TrackEntry{{
		Name: "1.m4s", Namespace: "alice/room", Packaging: catalog.CMAF, Role: "video", InitData: in.Only(1),
	}}}.MSF()
	require.NoError(t, err)
	publishRaw(t, origin, moqt.Namespace{"mallory", "trap"}, "mallory", trap{content: content})
	for _, c := range f.chunks {
		_, err := private.Write(c)
		require.NoError(t, err)
	}
	require.ErrorContains(t, describe(t, s, "/alice/room?token=mallory"), "401")
	turnedOut(t, s, "/mallory/trap?token=mallory")
	eve := view(t, s, "/mallory/trap?token=eve")
	eventually(t, "she may have both", func() bool { return len(eve.got("video")) > 0 })
	require.ErrorContains(t, describe(t, s, "/mallory/trap?token=mallory"), "401", "nor while somebody else plays it")
}

// turnedOut plays until the server ends that, and gets nothing.
func turnedOut(t *testing.T, s *Server, path string) {
	t.Helper()
	u := s.url(t, path)
	c := &gortsplib.Client{Protocol: protocol(gortsplib.ProtocolTCP), Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	var got atomic.Int64
	desc, _, err := c.Describe(u) // of the catalog's content
	if err == nil {
		err = c.SetupAll(desc.BaseURL, desc.Medias)
	}
	if err == nil {
		c.OnPacketRTPAny(func(*description.Media, format.Format, *rtp.Packet) { got.Add(1) })
		_, err = c.Play(nil)
	}
	if err == nil {
		err = c.Wait()
	}
	require.Error(t, err)
	require.Zero(t, got.Load())
}
