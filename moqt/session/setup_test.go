package session

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

var webTransport = transporttest.PipeConfig{Kind: transport.WebTransport, Authority: "relay.example", Path: "/live"}

func TestSetupThatEndsTheSession(t *testing.T) {
	register := moqt.Token{AliasType: moqt.AliasRegister, Alias: 1, Value: []byte("x")}
	for _, tc := range []struct {
		name  string
		role  Role
		setup *moqt.Setup
		want  moqt.SessionErrorCode
	}{
		{"path of a server", Client, &moqt.Setup{Path: new("/")}, moqt.SessionInvalidPath},
		{"authority of a server", Client, &moqt.Setup{Authority: new("a")}, moqt.SessionInvalidAuthority},
		{
			"unknown alias of a server", Client,
			&moqt.Setup{AuthorizationTokens: []moqt.Token{{AliasType: moqt.AliasUse, Alias: 1}}},
			moqt.SessionUnknownAuthTokenAlias,
		},
		{
			"alias registered twice", Server,
			&moqt.Setup{AuthorizationTokens: []moqt.Token{register, register}}, moqt.SessionDuplicateAuthTokenAlias,
		},
		{
			"token twice", Server,
			&moqt.Setup{AuthorizationTokens: []moqt.Token{
				{AliasType: moqt.AliasUseValue, Value: []byte("x")},
				{AliasType: moqt.AliasUseValue, Value: []byte("x")},
			}}, moqt.SessionMalformedAuthToken,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{cfg: Config{Role: tc.role}, silent: true}, func(p *script) {
				p.setup(tc.setup)
				p.requireClosed(tc.want)
			})
		})
	}
}

func TestSetupRefusedByTheApplication(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want moqt.SessionErrorCode
	}{
		{"any error", errors.New("who are you?"), moqt.SessionUnauthorized},
		{"path", &moqt.ProtocolError{Code: moqt.SessionInvalidPath, Reason: "unknown"}, moqt.SessionInvalidPath},
		{"authority", &moqt.ProtocolError{Code: moqt.SessionInvalidAuthority, Reason: "unknown"},
			moqt.SessionInvalidAuthority},
		{"token", &moqt.ProtocolError{Code: moqt.SessionExpiredAuthToken, Reason: "old"}, moqt.SessionExpiredAuthToken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHandler()
			h.setup = func(*Session, Peer) error { return tc.err }
			play(t, setting{cfg: Config{Role: Server, Handler: h}, silent: true}, func(p *script) {
				p.setup(&moqt.Setup{})
				p.requireClosed(tc.want)
			})
		})
	}
}

// sentSetup returns the SETUP of the session under test.
func (p *script) sentSetup() *moqt.Setup {
	m, err := moqt.NewReader(p.ours, moqt.Draft18).Read()
	require.NoError(p, err)
	return m.(*moqt.Setup)
}

func TestSetupOfAClient(t *testing.T) {
	tokens := []moqt.Token{{AliasType: moqt.AliasUseValue, Type: 3, Value: []byte("let me in")}}
	cfg := Config{Authority: "relay.example:4443", Path: "/live?x=1", Tokens: tokens}
	play(t, setting{cfg: cfg}, func(p *script) {
		m := p.sentSetup()
		require.Equal(p, "relay.example:4443", *m.Authority)
		require.Equal(p, "/live?x=1", *m.Path)
		require.Equal(p, "sluice", m.Implementation)
		require.Equal(p, tokens, m.AuthorizationTokens)
		require.EqualValues(p, 16<<10, m.MaxAuthTokenCacheSize)
		require.Len(p, m.Unknown, 1)
		require.EqualValues(p, moqt.Grease(0)%0x7f, m.Unknown[0].Type%0x7f)
	})
	cfg.Implementation, cfg.MaxAuthTokenCacheSize = "-", -1
	play(t, setting{cfg: cfg, pipe: webTransport}, func(p *script) {
		m := p.sentSetup()
		require.Nil(p, m.Authority)
		require.Nil(p, m.Path)
		require.Empty(p, m.Implementation)
		require.Zero(p, m.MaxAuthTokenCacheSize)
	})
}

func TestControlStreamViolations(t *testing.T) {
	for _, tc := range []struct {
		name   string
		silent bool
		do     func(*script)
		want   moqt.SessionErrorCode
	}{
		{"no SETUP in time", true, func(*script) {}, moqt.SessionControlMessageTimeout},
		{"SETUP is never completed", true, func(p *script) {
			p.uni(p.encode(&moqt.Setup{Implementation: "slow"})[:8])
		}, moqt.SessionControlMessageTimeout},
		{"FIN within SETUP", true, func(p *script) {
			require.NoError(p, p.uni(p.encode(&moqt.Setup{Implementation: "short"})[:8]).Close())
		}, moqt.SessionProtocolViolation},
		{"STOP_SENDING", false, func(p *script) { p.ours.CancelRead(0) }, moqt.SessionProtocolViolation},
		{"second control stream", false, func(p *script) { p.setup(&moqt.Setup{}) }, moqt.SessionProtocolViolation},
		{"second SETUP", false, func(p *script) {
			p.write(p.control, p.encode(&moqt.Setup{}))
		}, moqt.SessionProtocolViolation},
		{"a request", false, func(p *script) {
			p.write(p.control, p.encode(&moqt.Subscribe{Track: testTrack}))
		}, moqt.SessionProtocolViolation},
		{"unknown message", false, func(p *script) { p.write(p.control, []byte{0x3e, 0, 0}) },
			moqt.SessionProtocolViolation},
		{"message that is never completed", false, func(p *script) {
			p.write(p.control, []byte{byte(moqt.MessageGoaway), 0})
		}, moqt.SessionControlMessageTimeout},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{cfg: Config{Role: Server}, silent: tc.silent}, func(p *script) {
				tc.do(p)
				p.requireClosed(tc.want)
			})
		})
	}
}

func TestPeerThatDoesNotReadItsControlStream(t *testing.T) {
	pipe := transporttest.PipeConfig{StreamWindow: 8}
	play(t, setting{pipe: pipe, silent: true}, func(p *script) {
		p.requireClosed(moqt.SessionControlMessageTimeout)
	})
}

func TestRequestsAndDataBeforeSetup(t *testing.T) {
	h := newHandler()
	play(t, setting{cfg: Config{Role: Server, Handler: h}, silent: true}, func(p *script) {
		e := p.request(&moqt.Publish{Track: testTrack, TrackAlias: 5})
		p.uni(append(moqt.AppendSubgroupHeader(nil, moqt.Draft18, moqt.SubgroupHeader{TrackAlias: 5}),
			"early"...)).Close()
		time.Sleep(time.Second)
		require.Empty(p, h.publishes)
		p.setup(&moqt.Setup{})
		c := newCollector()
		require.NoError(p, (<-h.publishes).Accept(moqt.Parameters{}, c))
		require.IsType(p, &moqt.RequestOK{}, e.receive())
		require.Equal(p, "early", string((<-c.subgroups).body))
	})
}

func TestLimitOfStreamsBeforeSetup(t *testing.T) {
	cfg := Config{Role: Server, Limits: Limits{MaxHeldStreams: 2}}
	play(t, setting{cfg: cfg, silent: true}, func(p *script) {
		header := moqt.AppendSubgroupHeader(nil, moqt.Draft18, moqt.SubgroupHeader{})
		p.uni(header)
		p.uni(header)
		time.Sleep(time.Millisecond)
		p.requireStopped(p.uni(header), moqt.ResetExcessiveLoad)
		p.requireOpen()
	})
}

func TestConfigurationErrors(t *testing.T) {
	for _, tc := range []struct {
		name string
		cfg  Config
		pipe transporttest.PipeConfig
	}{
		{"version", Config{}, transporttest.PipeConfig{Protocol: "moqt-1"}},
		{"role", Config{Role: 2}, transporttest.PipeConfig{}},
		{"path of a server", Config{Role: Server, Path: "/"}, transporttest.PipeConfig{}},
		{"path", Config{Path: "live"}, transporttest.PipeConfig{}},
		{"authority", Config{Authority: "a b"}, transporttest.PipeConfig{}},
		{"token", Config{Tokens: []moqt.Token{{AliasType: moqt.AliasUse}}}, transporttest.PipeConfig{}},
		{"implementation", Config{Implementation: string(make([]byte, 1<<16))}, transporttest.PipeConfig{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			client, _ := transporttest.Pipe(tc.pipe)
			_, err := New(client, tc.cfg)
			require.Error(t, err)
		})
	}
}
