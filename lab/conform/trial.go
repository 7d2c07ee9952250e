package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// trial is one run of a case. Its methods end the case at the first rule that the relay breaks.
type trial struct {
	ctx       context.Context
	suite     *Suite
	namespace moqt.Namespace // of this trial alone
	failure   *Failure
	running   sync.WaitGroup // sessions

	mu    sync.Mutex
	conns []transport.Conn
	left  bool
}

// track returns the name of a track of the trial.
func (t *trial) track(name string) moqt.FullTrackName {
	return moqt.FullTrackName{Namespace: t.namespace, Name: name}
}

// below returns a namespace below the trial's.
func (t *trial) below(name string) moqt.Namespace { return t.namespace.Join(moqt.Namespace{name}) }

// fresh returns a track of this trial, also where the namespace is not.
func (t *trial) fresh() moqt.FullTrackName {
	return t.track(fmt.Sprintf("%x", time.Now().UnixNano()))
}

// fail ends the case.
func (t *trial) fail(expected, received string, args ...any) {
	received = fmt.Sprintf(received, args...)
	if err := t.ctx.Err(); err != nil {
		received = fmt.Sprintf("within %v: %s", t.suite.Timeout, cmp.Or(received, "nothing more"))
	}
	t.failure = &Failure{expected, received}
	runtime.Goexit()
}

// must ends the case if there is an error.
func (t *trial) must(err error, expected string) {
	if err != nil {
		t.fail(expected, "%v", err)
	}
}

// equal ends the case unless two values are the same.
func equal[T comparable](t *trial, what string, want, got T) {
	if want != got {
		t.fail(fmt.Sprintf("%s: %v", what, want), "%v", got)
	}
}

// next waits for a value.
func next[T any](t *trial, c <-chan T, expected string) (v T) {
	select {
	case v = <-c:
	case <-t.ctx.Done():
		t.fail(expected, "")
	}
	return v
}

// dial opens a transport session.
func (t *trial) dial() transport.Conn {
	conn, err := t.suite.Dial(t.ctx, t.suite.Protocols)
	t.must(err, "a transport session")
	t.mu.Lock()
	t.conns = append(t.conns, conn)
	left := t.left
	t.mu.Unlock()
	if left {
		_ = conn.CloseWithError(0, "")
	}
	return conn
}

// leave closes all transport sessions.
func (t *trial) leave() {
	t.mu.Lock()
	t.left = true
	conns := t.conns
	t.mu.Unlock()
	for _, conn := range conns {
		_ = conn.CloseWithError(0, "") // fails only if it has ended
	}
}

// setup returns the SETUP of a client.
func (t *trial) setup() *moqt.Setup {
	m := &moqt.Setup{Implementation: implementation, AuthorizationTokens: t.suite.Tokens}
	if t.suite.kind == transport.RawQUIC {
		m.Authority, m.Path = &t.suite.URL.Authority, &t.suite.URL.Path
	}
	return m
}

// implementation is the MOQT_IMPLEMENTATION of all sessions.
const implementation = "sluice-conform"

// encode returns messages as bytes.
func (t *trial) encode(messages ...moqt.Message) (b []byte) {
	for _, m := range messages {
		var err error
		if b, err = moqt.AppendMessage(b, t.suite.version, m); err != nil {
			panic(err)
		}
	}
	return b
}

// closes waits until the relay closes a session with one of the codes, or with any if there are none.
func (t *trial) closes(conn transport.Conn, codes ...moqt.SessionErrorCode) {
	expected := "the session is closed"
	for i, code := range codes {
		expected += map[bool]string{true: " with ", false: " or "}[i == 0] + code.String()
	}
	<-conn.Context().Done() // the end of the trial closes it, too
	if t.ctx.Err() != nil {
		t.fail(expected, "the session goes on")
	}
	end, ok := errors.AsType[*transport.SessionError](context.Cause(conn.Context()))
	if !ok || !end.Remote {
		t.fail(expected, "%v", context.Cause(conn.Context()))
	}
	if got := moqt.SessionErrorCode(end.Code); end.Cause != nil || len(codes) > 0 && !slices.Contains(codes, got) {
		t.fail(expected, "%s: %v", got, end)
	}
}
