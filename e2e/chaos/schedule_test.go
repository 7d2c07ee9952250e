package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab/hostile"
)

// kind is what an event does.
type kind string

const (
	attack        kind = "attack"         // a hostile process attacks a relay
	rtspAttack    kind = "RTSP attack"    // a hostile process attacks a relay, by RTSP
	forge         kind = "forge"          // somebody on the path repeats and changes packets of honest peers
	conditions    kind = "conditions"     // of a link
	tunnel        kind = "tunnel"         // a link loses everything for a while
	rebind        kind = "rebind"         // a host gets other ports, as behind a NAT
	readdress     kind = "readdress"      // a host gets other addresses
	killViewer    kind = "kill viewer"    // kill -9, and a new one starts
	killPublisher kind = "kill publisher" // kill -9, and a new one starts
	detach        kind = "detach"         // a program of the fast path, from a device
	attach        kind = "attach"         // it again
	certificate   kind = "certificate"    // there is a new one
	tokens        kind = "tokens"         // the token file changes
	replace       kind = "replace"        // another process takes over from a relay
)

// deck has the events of a round: each kind at least once.
var deck = []kind{
	attack, attack, attack, attack, attack, attack, attack, attack, rtspAttack, rtspAttack, rtspAttack, rtspAttack,
	forge, forge, conditions, conditions, conditions, tunnel, rebind, readdress, killViewer, killViewer, killPublisher,
	detach, detach, attach, attach, certificate, tokens, replace,
}

// event is an event of the schedule. Which fields have a meaning depends on its kind.
type event struct {
	at      time.Duration
	kind    kind
	relay   int           // index in relayNames
	host    string        // where it happens
	attack  string        // name
	scheme  string        // of the attacker's session
	lasts   time.Duration // of attack, forge, tunnel
	kill    bool          // the attacker is killed, and does not end properly
	link    string        // conditions
	program int           // index in attachPoints
	seed    uint64        // of forge
}

func (e event) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%7.2fs %s", e.at.Seconds(), e.kind)
	switch e.kind {
	case attack, rtspAttack:
		end := "ends"
		if e.kill {
			end = "is killed"
		}
		fmt.Fprintf(&b, ": %s, by %s from %s at relay %s; %s after %v", e.attack, e.scheme, e.host,
			relayNames[e.relay], end, e.lasts)
	case forge, tunnel:
		fmt.Fprintf(&b, ": %s for %v", e.host, e.lasts)
	case conditions:
		fmt.Fprintf(&b, ": %s %s", e.host, e.link)
	case rebind, readdress:
		fmt.Fprintf(&b, ": %s", e.host)
	case killViewer, killPublisher:
		fmt.Fprintf(&b, ": relay %s", relayNames[e.relay])
	case detach, attach:
		fmt.Fprintf(&b, ": %s", attachPoints[e.program])
	}
	return b.String()
}

// weather is the conditions that links have in turn.
var weather = []string{
	"clean", "loss=2%", "loss=5%", "reorder=3%", "duplicate=3%", "delay=20ms", "loss=1%,reorder=2%,duplicate=1%",
	"delay=10ms,loss=2%,reorder=1%",
}

const meanGap = 400 * time.Millisecond // between two events

// newSchedule returns the events of an act. Equal seeds and durations give equal schedules.
func newSchedule(seed uint64, duration time.Duration) (all []event) {
	s := &scheduler{Rand: rand.New(rand.NewPCG(seed, uint64(duration))), attacks: make(map[kind][]event)}
	for at := time.Duration(0); ; {
		for _, i := range s.Perm(len(deck)) {
			at += meanGap/2 + s.upTo(meanGap)
			e := s.next(deck[i])
			e.at = at.Truncate(10 * time.Millisecond)
			if at+e.lasts > duration {
				return all
			}
			all = append(all, e)
		}
	}
}

// scheduler draws events.
type scheduler struct {
	*rand.Rand
	attacks map[kind][]event // that are still to come before any of them comes again
}

func (s *scheduler) upTo(d time.Duration) time.Duration { return time.Duration(s.Int64N(int64(d))) }

func (s *scheduler) next(k kind) event {
	e := event{kind: k, relay: s.IntN(len(relayNames)), program: s.IntN(len(attachPoints)), seed: s.Uint64()}
	switch k {
	case attack, rtspAttack:
		e = s.attack(k)
		e.host = hostileHosts[s.IntN(len(hostileHosts))]
		e.lasts, e.kill = (500*time.Millisecond + s.upTo(3*time.Second)).Truncate(time.Millisecond), s.IntN(2) == 0
	case forge: // mostly the packets that the kernel would forward
		e.host, e.lasts = publisherHosts[s.IntN(len(publisherHosts))], time.Second+s.upTo(2*time.Second)
		switch s.IntN(6) {
		case 0, 1:
			e.host = honestHosts[s.IntN(len(honestHosts))]
		case 2:
			e.host = publisherHost
		}
	case tunnel: // not of the victim: a publisher that does not answer gives way to another one with the permission
		others := append(honestHosts[1:len(honestHosts):len(honestHosts)], tcpHost)
		e.host, e.lasts = others[s.IntN(len(others))], 300*time.Millisecond+s.upTo(time.Second)
	case conditions:
		hosts := weatherHosts()
		e.host, e.link = hosts[s.IntN(len(hosts))], weather[s.IntN(len(weather))]
	case rebind, readdress:
		e.host = honestHosts[s.IntN(len(honestHosts))]
	}
	e.lasts = e.lasts.Truncate(time.Millisecond)
	return e
}

// attack returns each attack of a kind over each transport on each relay, in random order, before it begins again. Each
// attack comes once before any comes twice.
func (s *scheduler) attack(k kind) event {
	if len(s.attacks[k]) == 0 {
		s.attacks[k] = s.attacksOf(k)
	}
	e := s.attacks[k][0]
	s.attacks[k] = s.attacks[k][1:]
	return e
}

// impostors are attacks of peers that may publish what the victim publishes. While publishers move to another process
// of a relay, an impostor may be there first, and then the objects of the victim do not count.
var impostors = []string{"other people's namespaces", "other people's tracks, offered"}

func (s *scheduler) attacksOf(k kind) (all []event) {
	names, schemes := attackNames(k)
	relays := len(relayNames)
	if k == rtspAttack {
		relays = rtspRelays
	}
	ways := make([][]int, len(names)) // of each attack: relays and transports
	for i := range ways {
		ways[i] = s.Perm(relays * len(schemes))
	}
	for round := range relays * len(schemes) {
		for _, i := range s.Perm(len(names)) {
			way := ways[i][round]
			e := event{kind: k, attack: names[i], relay: way / len(schemes), scheme: schemes[way%len(schemes)]}
			if e.relay != replaceable || !slices.Contains(impostors, e.attack) {
				all = append(all, e)
			}
		}
	}
	return all
}

func attackNames(k kind) (names, schemes []string) {
	if k == rtspAttack {
		for _, a := range hostile.RTSPAttacks {
			names = append(names, a.Name)
		}
		return names, []string{"rtsp", "rtsps"}
	}
	for _, a := range hostile.Attacks {
		names = append(names, a.Name)
	}
	return names, []string{"moqt", "https"}
}

// weatherHosts are the honest hosts whose links may lose packets.
func weatherHosts() []string { return append(slices.Clone(honestHosts), tcpHost) }

// The same seed makes the same schedule, another seed another one; all kinds of events and all attacks are in it.
func TestSchedule(t *testing.T) {
	const duration = 2 * time.Minute
	all := newSchedule(1, duration)
	require.Equal(t, all, newSchedule(1, duration))
	require.NotEqual(t, all, newSchedule(2, duration))
	kinds, attacks := make(map[kind]bool), make(map[string]bool)
	for i, e := range all {
		kinds[e.kind], attacks[e.attack] = true, true
		require.False(t, e.relay == replaceable && slices.Contains(impostors, e.attack))
		require.LessOrEqual(t, e.at+e.lasts, duration)
		require.True(t, i == 0 || e.at > all[i-1].at, "in order")
	}
	for _, k := range deck {
		require.True(t, kinds[k], k)
	}
	for _, k := range []kind{attack, rtspAttack} {
		names, _ := attackNames(k)
		for _, name := range append(names, impostors...) {
			require.True(t, attacks[name], name)
		}
	}
}
