package relay

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport"
)

// TestHostilePeers attacks the relay while another peer publishes and a third one watches: they must not notice.
func TestHostilePeers(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("beside others", func(t *testing.T) { // ends when all have ended
		for name, attack := range map[string]func(*attacker){
			"garbage in a request":           (*attacker).garbageRequest,
			"garbage in a stream":            (*attacker).garbageStream,
			"garbage in a datagram":          (*attacker).garbageDatagram,
			"streams without end":            (*attacker).streams,
			"request streams without end":    (*attacker).requestStreams,
			"requests without end":           (*attacker).requests,
			"fetches that are not read":      (*attacker).fetches,
			"objects that are not read":      (*attacker).neverReads,
			"tiny objects":                   (*attacker).tinyObjects,
			"groups of one object":           (*attacker).tinyGroups,
			"tokens without end":             (*attacker).tokens,
			"tokens of many requests":        (*attacker).tokensOfRequests,
			"prefixes without end":           (*attacker).prefixes,
			"streams that wait":              (*attacker).waitingStreams,
			"ids that never merge":           (*attacker).sparseObjects,
			"other people's namespaces":      (*attacker).contradicts,
			"other people's tracks, offered": (*attacker).offers,
		} {
			for _, scheme := range []string{"moqt", "https"} {
				t.Run(name+" "+scheme, func(t *testing.T) {
					t.Parallel()
					underAttack(t, scheme, attack)
				})
			}
		}
	})
}

// underAttack publishes before, during and after an attack.
func underAttack(t *testing.T, scheme string, attack func(*attacker)) {
	n := newNetwork(t)
	pubs := make(chan *session.Publication, 1)
	pub := n.connect("moqt", &clientHandler{subscribe: func(p *session.Publication) {
		if p.Accept(moqt.Parameters{}, nil) == nil {
			pubs <- p
		}
	}})
	ns, err := pub.PublishNamespace(t.Context(), moqt.PublishNamespace{Namespace: video.Namespace})
	require.NoError(t, err)
	require.NoError(t, ns.Wait(t.Context()))
	watching := newFrames()
	sub, err := n.connect("https", nil).Subscribe(t.Context(), moqt.Subscribe{Track: video}, watching)
	require.NoError(t, err)
	_, err = sub.Wait(t.Context())
	require.NoError(t, err)

	p, want := <-pubs, make(map[moqt.Location]string)
	publish := func(group uint64) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := p.OpenSubgroup(t.Context(), h)
		require.NoError(t, err)
		encoder := moqt.NewSubgroupEncoder(h)
		for o := range uint64(10) {
			body := frame(group, o)
			b, err := encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: o, PayloadLength: uint64(len(body))})
			require.NoError(t, err)
			_, err = stream.Write(append(b, body...))
			require.NoError(t, err)
			want[at(group, o)] = body
		}
		require.NoError(t, stream.Close())
	}
	publish(0)
	watching.await(t, want)
	a := &attacker{t: t, relay: n.relay, done: make(chan struct{}), handler: &clientHandler{}}
	a.Session, a.conn = n.dial(scheme, a.handler)
	<-a.Ready()
	over := make(chan struct{})
	go func() {
		defer close(over)
		attack(a)
	}()
	for group := uint64(1); ; group++ {
		publish(group)
		select {
		case <-over:
			publish(group + 1)
			watching.await(t, want)
			require.NoError(t, sub.Context().Err())
			require.NoError(t, pub.Context().Err())
			close(a.done)
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// attacker is a peer that does harm, on a session that began properly.
type attacker struct {
	*session.Session
	t       *testing.T
	conn    transport.Conn
	relay   *Relay
	handler *clientHandler
	done    chan struct{} // closed at the end of the test
}

// expelled waits until the relay has ended the session.
func (a *attacker) expelled() {
	select {
	case <-a.Context().Done():
	case <-time.After(20 * time.Second):
		a.t.Error("the session goes on")
	}
}

func (a *attacker) garbageRequest() {
	stream, err := a.conn.OpenStream()
	if a.failed(err) {
		return
	}
	_, _ = stream.Write(noise(64 << 10))
	a.expelled()
}

func (a *attacker) garbageStream() {
	stream, err := a.conn.OpenUniStream()
	if a.failed(err) {
		return
	}
	_, _ = stream.Write(noise(64 << 10))
	a.expelled()
}

func (a *attacker) garbageDatagram() {
	a.failed(a.conn.SendDatagram(noise(500)))
	a.expelled()
}

// noise returns random bytes that begin with a type that no message, stream or datagram has.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	copy(b, []byte{0x80 | 0x2a, 0xaa}) // a varint of two bytes
	return b
}

func (a *attacker) failed(err error) bool {
	if err != nil {
		a.t.Error(err)
	}
	return err != nil
}

// streams opens as many streams as it can, and sends half a varint on each.
func (a *attacker) streams() {
	a.openAll(func() (transport.SendStream, error) { return a.conn.OpenUniStream() })
}

func (a *attacker) requestStreams() {
	a.openAll(func() (transport.SendStream, error) { return a.conn.OpenStream() })
}

func (a *attacker) openAll(open func() (transport.SendStream, error)) {
	for range 10_000 {
		stream, err := open()
		if err != nil {
			if !errors.Is(err, transport.ErrStreamLimit) {
				a.t.Error(err)
			}
			return
		}
		_, _ = stream.Write([]byte{0x80}) // the first byte of two
	}
	a.t.Error("there is no limit")
}

func (a *attacker) requests() {
	ctx, cancel := context.WithTimeout(a.Context(), time.Second)
	defer cancel()
	for i := range 20_000 {
		m := moqt.Subscribe{Track: moqt.FullTrackName{Namespace: moqt.Namespace{"none"}, Name: fmt.Sprint(i)}}
		m.Parameters.RendezvousTimeout = ptr(uint64(60_000))
		s, err := a.Subscribe(ctx, m, nil)
		if err != nil {
			return // the session has ended, or there are no streams any more
		}
		select {
		case <-s.Context().Done(): // refused
			return
		default:
		}
	}
	a.t.Error("there is no limit")
}

// tokens sends a request with as many tokens as fit into a message.
func (a *attacker) tokens() {
	const n = 13_000
	const token = "\x02\x03\x00" // its length, USE_VALUE, type 0, no value
	payload := moqt.AppendVarint([]byte{0, 0, 0}, n)
	payload = append(payload, byte(moqt.ParameterAuthorizationToken))
	payload = append(payload, token...)
	payload = append(payload, strings.Repeat("\x00"+token, n-1)...)
	stream, err := a.conn.OpenStream()
	if a.failed(err) {
		return
	}
	message := binary.BigEndian.AppendUint16([]byte{byte(moqt.MessageSubscribe)}, uint16(len(payload)))
	_, _ = stream.Write(append(message, payload...))
	a.expelled()
}

// tokensOfRequests makes 200 requests with as large tokens as a message may have: 3 MiB.
func (a *attacker) tokensOfRequests() {
	ends := make(chan error, 200)
	for i := range cap(ends) {
		m := moqt.Subscribe{Track: moqt.FullTrackName{Namespace: moqt.Namespace{"none"}, Name: fmt.Sprint(i)}}
		m.Parameters.RendezvousTimeout = ptr(uint64(60_000))
		m.Parameters.AuthorizationTokens = []moqt.Token{token(strings.Repeat("x", moqt.MaxAuthTokenBytes))}
		s, err := a.Subscribe(a.Context(), m, nil)
		if a.failed(err) {
			return
		}
		context.AfterFunc(s.Context(), func() { ends <- context.Cause(s.Context()) })
	}
	select {
	case err := <-ends:
		refused, ok := errors.AsType[*moqt.RequestError](err)
		if !ok || refused.Code != moqt.RequestExcessiveLoad {
			a.t.Error(err)
		}
	case <-time.After(20 * time.Second):
		a.t.Error("there is no limit")
	}
}

// prefixes asks for 200 namespaces again and again.
func (a *attacker) prefixes() {
	for i := range 200 {
		ns := moqt.PublishNamespace{Namespace: moqt.Namespace{"flood", fmt.Sprint(i)}}
		if _, err := a.PublishNamespace(a.Context(), ns); a.failed(err) {
			return
		}
	}
	n, err := a.SubscribeNamespace(a.Context(), moqt.SubscribeNamespace{}, func(moqt.Namespace, bool) {})
	if a.failed(err) || a.failed(n.Wait(a.Context())) {
		return
	}
	for range 200 {
		for _, prefix := range []moqt.Namespace{{"none"}, {"flood"}} {
			err := n.Update(a.Context(), moqt.Parameters{NamespacePrefix: &prefix})
			if refused, ok := errors.AsType[*moqt.RequestError](err); ok {
				if refused.Code != moqt.RequestExcessiveLoad {
					a.t.Error(refused)
				}
				return
			}
			if a.failed(err) {
				return
			}
		}
	}
	a.t.Error("there is no limit")
}

// fetches asks for everything 50 times, and reads nothing.
func (a *attacker) fetches() {
	for range 50 {
		f, err := a.Fetch(a.Context(), standalone(at(0, 0), at(1, 0)))
		if a.failed(err) {
			return
		}
		go func() { _, _ = f.Wait(a.Context()) }()
	}
}

func (a *attacker) neverReads() {
	s, err := a.Subscribe(a.Context(), moqt.Subscribe{Track: video}, unread{a.done})
	if a.failed(err) {
		return
	}
	_, err = s.Wait(a.Context())
	a.failed(err)
	time.Sleep(200 * time.Millisecond)
}

// unread is a session.Receiver that reads nothing.
type unread struct{ done chan struct{} }

func (d unread) HandleSubgroup(*session.Subgroup)    { <-d.done }
func (d unread) HandleDatagram(*moqt.ObjectDatagram) {}

// publication offers a track of its own.
func (a *attacker) publication(track moqt.FullTrackName) *session.Publication {
	p, err := a.Publish(a.Context(), moqt.Publish{Track: track})
	if a.failed(err) || a.failed(p.Wait(a.Context())) {
		return nil
	}
	return p
}

var flood = moqt.FullTrackName{Namespace: moqt.Namespace{"flood"}, Name: "x"}

func (a *attacker) tinyObjects() {
	p := a.publication(flood)
	if p == nil {
		return
	}
	h := moqt.SubgroupHeader{FirstObject: true}
	stream, err := p.OpenSubgroup(a.Context(), h)
	if a.failed(err) {
		return
	}
	encoder, b := moqt.NewSubgroupEncoder(h), []byte(nil)
	for id := range uint64(200_000) {
		b, _ = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: id, PayloadLength: 1})
		if b = append(b, 'x'); len(b) > 16<<10 {
			if _, err := stream.Write(b); err != nil {
				break // the relay has stopped the stream, for example
			}
			b = b[:0]
		}
	}
	a.checkCache()
}

func (a *attacker) tinyGroups() {
	p := a.publication(flood)
	if p == nil {
		return
	}
	for group := range uint64(5_000) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := p.OpenSubgroup(a.Context(), h)
		if err != nil {
			break
		}
		encoder := moqt.NewSubgroupEncoder(h)
		b, _ := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1})
		_, _ = stream.Write(append(b, 'x'))
		_ = stream.Close()
	}
	a.checkCache()
}

// waitingStreams sends little on one stream of a subgroup, and sends the same subgroup on others, which have to wait.
func (a *attacker) waitingStreams() {
	p := a.publication(flood)
	if p == nil {
		return
	}
	h := moqt.SubgroupHeader{FirstObject: true}
	send := func(b []byte) transport.SendStream {
		stream, err := p.OpenSubgroup(a.Context(), h)
		if a.failed(err) {
			return nil
		}
		_, _ = stream.Write(b) // the relay may have stopped the stream
		return stream
	}
	encoder := moqt.NewSubgroupEncoder(h)
	b, err := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 1 << 20})
	if a.failed(err) {
		return
	}
	b = append(b, make([]byte, 1<<20)...)
	active := send(b[:100])
	for i := range 100 {
		stream := send(b)
		if active == nil || stream == nil {
			return
		}
		_ = stream.Close()
		_, _ = active.Write(b[100+i : 101+i])             // it does not seem to stall
		if held := a.relay.cache.Bytes(); held > 64<<20 { // 32 MiB may wait, and 16 arrive
			a.t.Errorf("the cache has %d bytes for streams that wait", held)
			return
		}
	}
	active.CancelWrite(0)
}

// sparseObjects sends objects with every second id on one stream.
func (a *attacker) sparseObjects() {
	p := a.publication(flood)
	if p == nil {
		return
	}
	h := moqt.SubgroupHeader{FirstObject: true}
	stream, err := p.OpenSubgroup(a.Context(), h)
	if a.failed(err) {
		return
	}
	encoder, b := moqt.NewSubgroupEncoder(h), []byte(nil)
	for id := range uint64(100_000) {
		b, _ = encoder.AppendObject(b, moqt.ObjectHeader{ObjectID: 2 * id, PayloadLength: 1})
		if b = append(b, 'x'); len(b) > 16<<10 {
			if _, err := stream.Write(b); a.failed(err) {
				return
			}
			b = b[:0]
		}
	}
	limited := func() bool { return a.relay.cache.Trims() > 0 }
	assert.Eventually(a.t, limited, 20*time.Second, 10*time.Millisecond, "ids without a limit")
	a.failed(context.Cause(a.Context())) // gaps are allowed
	a.checkCache()
}

func (a *attacker) checkCache() {
	if over := a.relay.cache.Over(); over > 0 {
		a.t.Errorf("the cache has %d bytes too many", over)
	}
}

// contradicts announces the other publisher's namespace, and sends other objects under the same ids.
func (a *attacker) contradicts() {
	asked := make(chan *session.Publication, 1)
	a.handler.subscribe = func(p *session.Publication) {
		if p.Accept(moqt.Parameters{}, nil) == nil {
			asked <- p
		}
	}
	n, err := a.PublishNamespace(a.Context(), moqt.PublishNamespace{Namespace: video.Namespace})
	if a.failed(err) || a.failed(n.Wait(a.Context())) {
		return
	}
	a.impersonate(<-asked)
}

func (a *attacker) offers() {
	if p := a.publication(video); p != nil {
		a.impersonate(p)
	}
}

// impersonate publishes an object that differs from the one that subscribers already have, until the relay refuses it:
// at first the relay takes it for a publisher that was restarted.
func (a *attacker) impersonate(p *session.Publication) {
	for range 200 {
		h := moqt.SubgroupHeader{GroupID: 0, FirstObject: true}
		stream, err := p.OpenSubgroup(p.Context(), h)
		if err != nil {
			return // the relay has ended it
		}
		encoder := moqt.NewSubgroupEncoder(h)
		b, _ := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(frame(0, 0)))})
		_, _ = stream.Write(append(b, bytes.Repeat([]byte("!"), len(frame(0, 0)))...))
		select {
		case <-p.Context().Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
	}
	a.t.Error("the relay takes objects of an impostor")
}
