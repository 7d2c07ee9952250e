package hostile

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"sluice/moqt"
	"sluice/moqt/session"
)

// waiting is a SUBSCRIBE to the n-th of many tracks that nobody publishes.
func waiting(n int) moqt.Subscribe {
	return moqt.Subscribe{
		Track:      moqt.FullTrackName{Namespace: moqt.Namespace{"none"}, Name: fmt.Sprint(n)},
		Parameters: moqt.Parameters{RendezvousTimeout: new(uint64(60_000))},
	}
}

func requests(p *Peer) {
	ctx, cancel := context.WithTimeout(p.Context(), time.Second)
	defer cancel()
	var refused atomic.Bool // one of them; the answer may come after many more
	for i := range 20_000 {
		s, err := p.Subscribe(ctx, waiting(i), nil)
		if err != nil || refused.Load() {
			return // the session has ended, there are no streams any more, or that was too much
		}
		context.AfterFunc(s.Context(), func() { refused.Store(true) })
	}
	unlimited()
}

// tokens sends a request with as many tokens as fit into a message.
func tokens(p *Peer) {
	const n = 13_000
	const token = "\x02\x03\x00" // its length, USE_VALUE, type 0, no value
	payload := moqt.AppendVarint([]byte{0, 0, 0}, n)
	payload = append(payload, byte(moqt.ParameterAuthorizationToken))
	payload = append(payload, token...)
	payload = append(payload, strings.Repeat("\x00"+token, n-1)...)
	message := binary.BigEndian.AppendUint16([]byte{byte(moqt.MessageSubscribe)}, uint16(len(payload)))
	_, _ = got(p.Conn.OpenStream()).Write(append(message, payload...)) // the relay may have stopped it
	p.expelled()
}

// tokensOfRequests makes 200 requests with as large tokens as a message may have: 3 MiB.
func tokensOfRequests(p *Peer) {
	ends := make(chan error, 200)
	large := moqt.Token{AliasType: moqt.AliasUseValue, Value: []byte(strings.Repeat("x", moqt.MaxAuthTokenBytes))}
	for i := range cap(ends) {
		m := waiting(i)
		m.Parameters.AuthorizationTokens = []moqt.Token{large}
		s := got(p.Subscribe(p.Context(), m, nil))
		context.AfterFunc(s.Context(), func() { ends <- context.Cause(s.Context()) })
	}
	select {
	case err := <-ends:
		must(excessive(err))
	case <-time.After(patience):
		unlimited()
	}
}

// excessive returns nil for the refusal of too much.
func excessive(err error) error {
	if refused, ok := errors.AsType[*moqt.RequestError](err); ok && refused.Code == moqt.RequestExcessiveLoad {
		return nil
	}
	return err
}

// prefixes asks for 200 namespaces again and again.
func prefixes(p *Peer) {
	for i := range 200 {
		ns := moqt.PublishNamespace{Namespace: slices.Concat(p.own.Namespace, moqt.Namespace{fmt.Sprint(i)})}
		_ = got(p.PublishNamespace(p.Context(), ns))
	}
	ignore := func(moqt.Namespace, bool, moqt.Parameters) {}
	n := got(p.SubscribeNamespace(p.Context(), moqt.SubscribeNamespace{}, ignore))
	must(n.Wait(p.Context()))
	for range 200 {
		for _, prefix := range []moqt.Namespace{{"none"}, p.own.Namespace} {
			if err := n.Update(p.Context(), moqt.Parameters{NamespacePrefix: &prefix}); err != nil {
				must(excessive(err))
				return
			}
		}
	}
	unlimited()
}

// namespaces reports many namespaces to the relay, which has asked for them.
func namespaces(p *Peer) {
	select {
	case n := <-p.watched:
		for i := range 40_000 {
			ns := slices.Concat(p.own.Namespace, moqt.Namespace{fmt.Sprint(i)})
			if err := n.Add(ns, moqt.Parameters{}); err != nil {
				return // the relay does not read as fast, or has ended the session
			}
		}
	case <-time.After(patience):
		must(errors.New("the relay does not ask for namespaces"))
	}
}

// fetches asks for everything 50 times, and reads nothing.
func fetches(p *Peer) {
	for range 50 {
		f := got(p.Fetch(p.Context(), moqt.Fetch{
			FetchType: moqt.FetchStandalone, Track: p.victim, End: moqt.Location{Group: 1 << 60},
		}))
		go func() { _, _ = f.Wait(p.Context()) }()
	}
}

func neverReads(p *Peer) {
	s := got(p.Subscribe(p.Context(), moqt.Subscribe{Track: p.victim}, unread{p.Context()}))
	_ = got(s.Wait(p.Context()))
	select {
	case <-p.Context().Done():
	case <-time.After(200 * time.Millisecond):
	}
}

// unread is a session.Receiver that reads nothing while a session lasts.
type unread struct{ session context.Context }

func (u unread) HandleSubgroup(*session.Subgroup)    { <-u.session.Done() }
func (u unread) HandleDatagram(*moqt.ObjectDatagram) {}
