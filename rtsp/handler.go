package rtsp

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/liberrors"

	"sluice/internal/limited"
	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/player/sub"
	"sluice/relay"
	"sluice/transport"
)

// The library calls the methods of endpoint below.
var _ interface {
	gortsplib.ServerHandlerOnConnClose
	gortsplib.ServerHandlerOnResponse
	gortsplib.ServerHandlerOnSessionClose
	gortsplib.ServerHandlerOnDescribe
	gortsplib.ServerHandlerOnAnnounce
	gortsplib.ServerHandlerOnSetup
	gortsplib.ServerHandlerOnPlay
	gortsplib.ServerHandlerOnRecord
	gortsplib.ServerHandlerOnPause
	gortsplib.ServerHandlerOnPacketsLost
	gortsplib.ServerHandlerOnDecodeError
} = (*endpoint)(nil)

var (
	errNoStream = errors.New("nobody publishes that")
	errPlays    = errors.New("this session is for playing: publish with another one")
)

// endpoint is a TCP address, and the handler of its requests.
type endpoint struct {
	*Server
	lib      *gortsplib.Server
	tls      *tls.Config // nil: none
	listener *limited.Listener
	ports    *ports

	refusedKeys logs.Line
}

// OnDescribe makes a player, which waits for its session at the connection.
func (e *endpoint) OnDescribe(c *gortsplib.ServerHandlerOnDescribeCtx) (
	*base.Response, *gortsplib.ServerStream, error,
) {
	p, err := e.player(c.Conn, c.Path, c.Query, c.Request)
	if err != nil {
		res, err := e.refuse(err)
		return res, nil, err
	}
	res, lib := ok(), p.lib
	if wantsNACK(c.Query) {
		lib = nil // the response has the description already
		if res.Body, err = p.describeNACK(); err != nil {
			p.close()
			res, err := e.refuse(err)
			return res, nil, err
		}
	}
	forget(c.Conn)
	c.Conn.SetUserData(p)
	return res, lib, nil
}

// player makes a player for a client that may have it.
func (e *endpoint) player(conn *gortsplib.ServerConn, path, query string, r *base.Request) (*player, error) {
	q, err := readRequest(path, query, r)
	if err == nil {
		q.choice, err = readChoice(query)
	}
	if err != nil {
		return nil, err
	}
	guest, err := e.cfg.Relay.Admit(context.Background(), q.guest(conn, relay.ActionSubscribe))
	if err != nil {
		return nil, err
	}
	s, err := e.lookup(&q, transport.SourceOf(conn.NetConn().RemoteAddr()), guest)
	if err != nil {
		guest.Leave()
		return nil, err
	}
	p, err := e.newPlayer(s, guest, path)
	if err != nil {
		s.demand.leave(guest)
		guest.Leave()
		return nil, err
	}
	context.AfterFunc(guest.Context(), func() {
		if errors.Is(context.Cause(guest.Context()), relay.ErrWithdrawn) {
			conn.Close() // there may be no session
		}
	})
	return p, nil
}

// forget closes the player that a connection has and no session.
func forget(conn *gortsplib.ServerConn) {
	if p, ok := conn.UserData().(*player); ok {
		conn.SetUserData(nil)
		p.close()
	}
}

// OnAnnounce makes a publisher.
func (e *endpoint) OnAnnounce(c *gortsplib.ServerHandlerOnAnnounceCtx) (*base.Response, error) {
	q, err := readRequest(c.Path, c.Query, c.Request)
	if err == nil {
		err = checkDescription(c.Description)
	}
	if c.Session.UserData() != nil {
		err = errPlays // its player has to leave when the session ends
	}
	if err != nil {
		return e.refuse(err)
	}
	guest, err := e.cfg.Relay.Admit(context.Background(), q.guest(c.Conn, relay.ActionPublishNamespace))
	if err != nil {
		return e.refuse(err)
	}
	p := &publisher{
		server: e.Server, guest: guest, namespace: q.namespace, session: c.Session, address: addressOf(c.Conn),
	}
	p.stream = newStream(c.Description, e.cached.share(p.source()), e.metrics)
	p.stream.policy = e.policy()
	p.stream.publisher = p
	in := p.prepare()
	if err := e.add(p); err != nil {
		p.lift.close()
		guest.Leave()
		return e.refuse(err)
	}
	p.linkUp(in, &q, c.Conn.NetConn().RemoteAddr())
	c.Session.SetUserData(p)
	context.AfterFunc(guest.Context(), c.Session.Close)
	e.lines.came.Log(e.log, lineInterval, slog.LevelInfo, "published by RTSP",
		"namespace", q.namespace, "remote", p.address)
	return ok(), nil
}

// OnSetup gives a session the player of its connection, and the UDP ports that it asks for.
func (e *endpoint) OnSetup(c *gortsplib.ServerHandlerOnSetupCtx) (*base.Response, *gortsplib.ServerStream, error) {
	lib, err := e.setUp(c)
	if err != nil {
		res, err := e.refuse(err)
		return res, nil, err
	}
	if err := e.ports.take(c); err != nil {
		res, _ := e.refuse(err)
		return res, nil, nil // the connection stays: clients ask for TCP then
	}
	guestOf(c.Session).SetCarrier(carrierOf(c.Transport))
	switch u := c.Session.UserData().(type) {
	case *publisher:
		u.ports.add(c)
	case *player:
		u.ports.add(c)
		u.protect(c.Transport.Profile)
	}
	return ok(), lib, nil
}

// guestOf returns the guest of a session that plays or publishes.
func guestOf(session *gortsplib.ServerSession) *relay.Guest {
	if p, isPublisher := session.UserData().(*publisher); isPublisher {
		return p.guest
	}
	return session.UserData().(*player).guest
}

// setUp returns the stream that a session plays, or nil if it publishes.
func (e *endpoint) setUp(c *gortsplib.ServerHandlerOnSetupCtx) (*gortsplib.ServerStream, error) {
	switch u := c.Session.UserData().(type) {
	case *publisher:
		return nil, nil
	case *player:
		return u.lib, nil
	}
	p, described := c.Conn.UserData().(*player)
	if described && p.path == c.Path {
		c.Conn.SetUserData(nil)
	} else {
		var err error
		if p, err = e.player(c.Conn, c.Path, c.Query, c.Request); err != nil {
			return nil, err
		}
	}
	c.Session.SetUserData(p)
	p.take(c.Session, c.Conn)
	return p.lib, nil
}

// OnPlay begins to send.
func (e *endpoint) OnPlay(c *gortsplib.ServerHandlerOnPlayCtx) (*base.Response, error) {
	p, isPlayer := c.Session.UserData().(*player)
	if isPlayer {
		p.reachBy(reach{e.rtpAddress(), p.ports.of(c.Session, addressOf(c.Conn))})
	}
	if isPlayer && c.Session.State() != gortsplib.ServerSessionStatePlay {
		p.listen(c.Session)
	}
	if !isPlayer || !p.play(c.Session.Medias(), c.Session) {
		return e.refuse(errNoStream)
	}
	return ok(), nil
}

// OnPause stops sending. A publisher's packets are not taken while it pauses.
func (e *endpoint) OnPause(c *gortsplib.ServerHandlerOnPauseCtx) (*base.Response, error) {
	switch u := c.Session.UserData().(type) {
	case *publisher:
		u.incoming.sends.Store(false)
		u.stream.rest(true)
	case *player:
		u.rest()
	}
	return ok(), nil
}

// OnRecord begins to take packets.
func (e *endpoint) OnRecord(c *gortsplib.ServerHandlerOnRecordCtx) (*base.Response, error) {
	if p, isPublisher := c.Session.UserData().(*publisher); isPublisher {
		p.record()
		p.stream.rest(false)
		p.lend(e.rtpAddress().Port(), c)
	}
	return ok(), nil
}

// OnSessionClose ends a player or a publisher.
func (e *endpoint) OnSessionClose(c *gortsplib.ServerHandlerOnSessionCloseCtx) {
	defer e.ports.leave(c.Session) // when the kernel does not know them any more
	e.reportPanic(nil, c.Error)
	switch u := c.Session.UserData().(type) {
	case *publisher:
		u.close()
		e.lines.left.Log(e.log, lineInterval, slog.LevelInfo, "the publisher by RTSP has left",
			"namespace", u.namespace, "remote", u.address, "reason", c.Error)
	case *player:
		u.close()
	}
}

// The least time between two lines of the log: about clients that anybody may be, and about publishers.
const (
	refusalInterval = time.Minute
	lineInterval    = 10 * time.Millisecond
)

// OnConnClose ends a player that has no session, and says which keys the library has refused.
func (e *endpoint) OnConnClose(c *gortsplib.ServerHandlerOnConnCloseCtx) {
	forget(c.Conn)
	e.reportPanic(c.Conn.NetConn().RemoteAddr(), c.Error)
	if _, keys := errors.AsType[liberrors.ErrServerInvalidKeyMgmtHeader](c.Error); keys {
		e.refusedKeys.Log(e.log, refusalInterval, slog.LevelInfo, "an RTSP client had to leave",
			"remote", c.Conn.NetConn().RemoteAddr(), "err", errKeys)
	}
}

// reportPanic logs the error that has ended a connection or a session, if that is a bug.
func (e *endpoint) reportPanic(remote net.Addr, err error) {
	if _, bug := errors.AsType[*gortsplib.PanicError](err); bug {
		e.log.Error("an RTSP client had to leave because of what it has sent: please report this", "remote", remote,
			"err", err)
	}
}

// OnResponse lists the transports, when the library has refused one.
func (e *endpoint) OnResponse(_ *gortsplib.ServerConn, r *base.Response) {
	if r.StatusCode == base.StatusUnsupportedTransport && r.StatusMessage == "" {
		e.metrics.refusals.WithLabelValues(strconv.Itoa(int(r.StatusCode))).Inc()
		r.StatusMessage = e.transports()
	}
}

// OnPacketsLost counts.
func (e *endpoint) OnPacketsLost(c *gortsplib.ServerHandlerOnPacketsLostCtx) {
	e.metrics.lost.Add(float64(c.Lost))
}

// OnDecodeError counts, and ends a publisher whose key does not fit its packets.
func (e *endpoint) OnDecodeError(c *gortsplib.ServerHandlerOnDecodeErrorCtx) {
	e.reportPanic(nil, c.Error)
	if !bySRTP(c.Session) {
		e.metrics.ignored.WithLabelValues(ignoredMalformed).Inc()
		return
	}
	e.metrics.ignored.WithLabelValues(ignoredSRTP).Inc()
	if p, isPublisher := c.Session.UserData().(*publisher); isPublisher {
		p.undecryptable()
	}
}

func ok() *base.Response { return &base.Response{StatusCode: base.StatusOK} }

// refuse returns the response to a request that fails. The library asks for credentials if there were none, and else
// closes the connection.
func (e *endpoint) refuse(err error) (*base.Response, error) {
	res := &base.Response{StatusCode: statusOf(err), StatusMessage: oneLine(err.Error())}
	if res.StatusCode == base.StatusUnauthorized {
		err = liberrors.ErrServerAuth{}
	}
	e.metrics.refusals.WithLabelValues(strconv.Itoa(int(res.StatusCode))).Inc()
	return res, err
}

// listenTLS is listen for the library, when it knows of TLS.
func (e *endpoint) listenTLS(network, address string, _ *tls.Config) (net.Listener, error) {
	return e.listen(network, address)
}

// listen opens the TCP port. The library does not wrap it for TLS: untunneled has to see the plain text.
func (e *endpoint) listen(network, address string) (net.Listener, error) {
	l, err := e.cfg.Listen.Listen(context.Background(), network, address)
	if err != nil {
		return nil, err
	}
	e.listener = limited.NewListener(l, maxConnections, maxConnectionsPerSource)
	l = e.listener
	if e.tls != nil {
		l = tls.NewListener(l, e.tls)
	}
	return untunneled{l, e.cfg.IdleTimeout}, nil
}

func (e *endpoint) listenPacket(network, address string) (net.PacketConn, error) {
	c, err := e.cfg.Listen.ListenPacket(context.Background(), network, address)
	if udp, ok := c.(*net.UDPConn); ok {
		_ = udp.SetReadBuffer(udpReadBuffer) // less is enough for a few publishers
	}
	return c, err
}

func (e *endpoint) addr() net.Addr {
	if e == nil {
		return nil
	}
	return e.listener.Addr()
}

// maxStatus is how many bytes a response says about an error.
const maxStatus = 500

// oneLine returns a text without control characters, and not too long: it may be of a service that decides about
// clients, or have the names of tracks.
func oneLine(text string) string {
	text = strings.ToValidUTF8(text[:min(len(text), maxStatus)], "")
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
}

// statusOf returns the status that tells a client of an error.
func statusOf(err error) base.StatusCode {
	if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
		switch refused.Code.Effective() {
		case moqt.RequestUnauthorized, moqt.RequestExpiredAuthToken, moqt.RequestMalformedAuthToken:
			return base.StatusUnauthorized
		case moqt.RequestExcessiveLoad:
			return base.StatusNotEnoughBandwidth
		}
		return base.StatusServiceUnavailable
	}
	for status, list := range statuses {
		for _, one := range list {
			if errors.Is(err, one) {
				return status
			}
		}
	}
	return base.StatusInternalServerError
}

var statuses = map[base.StatusCode][]error{
	base.StatusBadRequest:                {errPath, errTooManyMedias, errChoice},
	base.StatusUnsupportedTransport:      {errPorts},
	base.StatusMethodNotValidInThisState: {errPlays},
	base.StatusNotFound:                  {errNoStream, sub.ErrNoRendition},
	base.StatusForbidden:                 {errPublished},
	base.StatusUnsupportedMediaType:      {errCodecs},
	base.StatusGatewayTimeout:            {errNoBroadcast},
	base.StatusNotEnoughBandwidth: {errTooManyPublishers, errTooManyBroadcasts, errTooManyChoices,
		errNoMemory},
}
