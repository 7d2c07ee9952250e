package conform

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"sluice/moqt"
	"sluice/transport"
)

// Case is a rule of the draft, and how to see whether a relay keeps it.
type Case struct {
	Section string // of draft-18, as in "10.1", or of another draft, as in "20 5.1.3"
	Name    string
	Runner  string // its name in moq-interop-runner, if that has it

	from, to  moqt.Version // which have the rule; 0: no limit
	transport string       // the only one that has it: "quic" or "webtransport"
	run       func(*trial)
}

// String describes the case in one line.
func (c Case) String() string { return "§" + c.Section + " " + c.Name }

// Applies reports whether sessions of a version have the rule.
func (c Case) Applies(v moqt.Version, kind transport.Kind) bool {
	return v >= c.from && (c.to == 0 || v <= c.to) && (c.transport == "" || c.transport == kind.String())
}

// Cases returns all cases, by section.
func Cases() []Case {
	return bySection(wireCases(), exchangeCases, answerCases, rightCases, publisherCases, flowCases, trackCases)
}

// Failure is why a relay fails a case.
type Failure struct{ Expected, Received string }

// Suite runs cases against one relay.
type Suite struct {
	URL *transport.URL
	// Dial opens a session that speaks one of the protocols.
	Dial func(ctx context.Context, protocols []string) (transport.Conn, error)
	// Protocols are the versions to offer, as ALPN.
	Protocols []string
	// Tokens authorize the sessions.
	Tokens []moqt.Token
	// Namespace precedes the namespaces of all cases.
	Namespace moqt.Namespace
	// Exact is set if the cases use Namespace itself, as moq-interop-runner wants.
	Exact bool
	// Timeout is how long a case may take.
	Timeout time.Duration
	// Logger gets what sessions of package session do.
	Logger *slog.Logger

	version moqt.Version
	kind    transport.Kind
}

// Open dials the relay once, to learn which version it speaks. All cases use that version.
func (s *Suite) Open(ctx context.Context) error {
	conn, err := s.Dial(ctx, s.Protocols)
	if err != nil {
		return err
	}
	v, ok := moqt.ParseALPN(conn.Protocol())
	s.version, s.kind, s.Protocols = v, conn.Kind(), []string{conn.Protocol()}
	err = conn.CloseWithError(0, "")
	if !ok {
		return fmt.Errorf("the relay speaks %q: must be a version of MoQT that this program speaks", conn.Protocol())
	}
	return err
}

// Version is the version that the relay speaks. Open learns it.
func (s *Suite) Version() moqt.Version { return s.version }

// Applicable returns the cases that the sessions with the relay have.
func (s *Suite) Applicable(cases []Case) (found []Case) {
	for _, c := range cases {
		if c.Applies(s.version, s.kind) {
			found = append(found, c)
		}
	}
	return found
}

// Try runs a case. It returns nil if the relay keeps the rule.
func (s *Suite) Try(ctx context.Context, c Case) *Failure {
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	t := &trial{ctx: ctx, suite: s, namespace: s.Namespace}
	if !s.Exact {
		t.namespace = s.Namespace.Join(moqt.Namespace{rand.Text()})
	}
	left := make(chan struct{})
	go func() { // at the end of its time, all that waits for the relay ends
		defer close(left)
		<-ctx.Done()
		t.leave()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				t.failure = &Failure{"no mistake in the case itself", fmt.Sprintf("%v\n%s", p, debug.Stack())}
			}
		}()
		c.run(t)
	}()
	<-done
	cancel()
	<-left
	t.running.Wait()
	return t.failure
}
