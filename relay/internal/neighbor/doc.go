// Package neighbor says what a session with another relay, or with another process of this one, tells and asks about
// names: [Watches] asks for the namespaces and tracks that subscribers watch here, and an [Announcer] tells in which
// namespaces peers of this process publish.
package neighbor

import (
	"context"
	"log/slog"
	"sync"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/relay/internal/hub"
)

// Config describes a session.
type Config struct {
	Session *session.Session
	Sharing context.Context // done when the session shares no names any more
	Tasks   *sync.WaitGroup // goroutines that ask
	Log     *slog.Logger
	URL     string // of the upstream relay

	// Announce are the prefixes of namespaces that are announced.
	Announce []moqt.Namespace
	// Ask are the prefixes below which the other end is asked.
	Ask []moqt.Namespace
	// Watched returns the prefixes that subscribers watch, as far as the other end may be asked about them.
	Watched func() (namespaces, tracks []hub.Prefix)

	// Told is called for each namespace that the other end tells in answer to a request, which is the teller, and
	// Ended when the request has ended.
	Told  func(teller any, ns moqt.Namespace, published bool, way moqt.Parameters)
	Ended func(teller any)
	// Dropped is called when nobody watches the tracks below a prefix any more.
	Dropped func(prefix moqt.Namespace)
}
