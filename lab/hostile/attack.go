package hostile

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Attack is an attack by a hostile peer.
type Attack struct {
	Name string
	run  func(*Peer)
}

// Run attacks the relay once.
func (a Attack) Run(p *Peer) error { return attempt(func() { a.run(p) }) }

// anybodys are the attacks of a peer that has dialed the relay, or that the relay has dialed.
var anybodys = []Attack{
	{"garbage in a request", garbageRequest},
	{"garbage in a stream", garbageStream},
	{"garbage in a datagram", garbageDatagram},
	{"streams without end", streams},
	{"request streams without end", requestStreams},
	{"streams of unknown tracks", unknownAliases},
	{"requests without end", requests},
	{"tiny objects", tinyObjects},
	{"groups of one object", tinyGroups},
	{"streams that wait", waitingStreams},
	{"ids that never merge", sparseObjects},
}

// Attacks are the attacks of a peer that has dialed the relay.
var Attacks = slices.Concat(anybodys, []Attack{
	{"fetches that are not read", fetches},
	{"objects that are not read", neverReads},
	{"tokens without end", tokens},
	{"tokens of many requests", tokensOfRequests},
	{"prefixes without end", prefixes},
	{"other people's namespaces", contradicts},
	{"other people's tracks, offered", offers},
})

// UpstreamAttacks are the attacks of an upstream relay, which the relay has dialed.
var UpstreamAttacks = slices.Concat(anybodys, []Attack{{"namespaces without end", namespaces}})

// ErrUndefended is the error of an attack that the relay did not repel.
var ErrUndefended = errors.New("the relay does not defend itself")

// patience is how long a relay may take to repel an attack.
const patience = 20 * time.Second

// over is the panic by which an attack ends early, with its error.
type over struct{ err error }

// attempt makes an attack, until it returns or ends early.
func attempt(attack func()) (err error) {
	defer func() {
		switch end := recover().(type) {
		case nil:
		case over:
			err = end.err
		default:
			panic(end)
		}
	}()
	attack()
	return nil
}

// must ends the attack if there is an error.
func must(err error) {
	if err != nil {
		panic(over{err})
	}
}

// got returns a value, unless there is an error: that ends the attack.
func got[T any](value T, err error) T {
	must(err)
	return value
}

// undefended ends an attack that the relay did not repel.
func undefended(format string, args ...any) {
	must(fmt.Errorf("%w: %s", ErrUndefended, fmt.Sprintf(format, args...)))
}

func unlimited() { undefended("there is no limit") }
