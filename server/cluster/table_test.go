package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/moqt"
)

var (
	start  = time.Unix(1000, 0)
	aCard  = Card{URL: "moqt://a:4443"}
	aBeat  = beat{state: state{Epoch: 5, Version: 1}, Card: aCard}
	change = func(epoch, version uint64, ns string, gone bool) *changeMessage {
		return &changeMessage{state{epoch, version}, ns, gone}
	}
)

// at returns a beat of an epoch, with a version.
func at(epoch, version uint64) *beat { return &beat{state: state{epoch, version}, Card: aCard} }

func known(t *table) (names []string) {
	for ns, members := range t.of {
		for _, m := range members {
			names = append(names, m.id+" "+ns)
		}
	}
	return names
}

// TestLateMessages is about messages that arrive when they are no longer true.
func TestLateMessages(t *testing.T) {
	for name, late := range map[string]func(*table){
		"beat of an earlier epoch":      func(b *table) { b.meet("a", at(4, 9), start) },
		"change of an earlier epoch":    func(b *table) { b.change("a", change(4, 2, "old", false), start) },
		"withdrawal of an earlier life": func(b *table) { b.change("a", change(4, 2, "live", true), start) },
		"change again":                  func(b *table) { b.change("a", change(5, 1, "live", true), start) },
		"change after a gap":            func(b *table) { b.change("a", change(5, 3, "live", true), start) },
		"snapshot of an earlier epoch":  func(b *table) { b.part("a", &part{beat: *at(4, 9), Last: true}, start) },
		"snapshot of now":               func(b *table) { b.part("a", &part{beat: *at(5, 1), Last: true}, start) },
		"goodbye of an earlier epoch":   func(b *table) { b.leave("a", state{Epoch: 4}) },
		"part without a first": func(b *table) {
			b.part("a", &part{beat: *at(5, 7), Index: 1, Last: true}, start)
		},
		"change of nobody": func(b *table) { b.change("b", change(5, 1, "live", false), start) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newTable(nil)
			b.meet("a", at(5, 0), start)
			b.change("a", change(5, 1, "live", false), start)
			require.Equal(t, []string{"a live"}, known(&b))
			late(&b)
			require.Equal(t, []string{"a live"}, known(&b))
		})
	}
}

// nobody gives other signs of life.
func nobody(string) bool { return false }

func TestAfterGoodbye(t *testing.T) {
	b := newTable(nil)
	b.meet("a", at(5, 0), start)
	b.change("a", change(5, 1, "live", false), start)
	b.leave("a", state{Epoch: 5})
	require.Empty(t, known(&b))
	require.Nil(t, b.meet("a", at(5, 1), start), "it was sent before the goodbye")
	b.change("a", change(5, 1, "live", false), start)
	b.change("a", change(5, 2, "live", false), start)
	require.Empty(t, known(&b))
	require.NotNil(t, b.meet("a", at(6, 0), start))
	require.Empty(t, b.expire(start.Add(Lease), nobody))
	require.Equal(t, []string{"a"}, b.expire(start.Add(Lease+1), nobody))
	require.Empty(t, b.expire(start.Add(Lease+2), nobody), "told once")
	require.Len(t, b.members, 1)
	b.expire(start.Add(forget+1), nobody)
	require.Empty(t, b.members)
	require.Zero(t, b.bytes)
}

// TestClockStepsBack is about a node that has started again with an earlier clock.
func TestClockStepsBack(t *testing.T) {
	b := newTable(nil)
	b.meet("a", at(5, 0), start)
	b.change("a", change(5, 1, "live", false), start)
	require.Nil(t, b.meet("a", at(4, 1), start.Add(Lease+1)), "another one with its name is alive")
	require.Equal(t, []string{"a live"}, known(&b))
	require.Equal(t, []string{"a"}, b.expire(start.Add(Lease+1), nobody))
	m := b.meet("a", at(4, 1), start.Add(Lease+1))
	require.NotNil(t, m)
	require.True(t, m.isBehind())
	b.part("a", &part{beat: *at(4, 1), Last: true, Routes: []string{"new"}}, start.Add(Lease+1))
	require.Equal(t, []string{"a new"}, known(&b))

	b.leave("a", state{Epoch: 4})
	require.Nil(t, b.meet("a", at(3, 0), start.Add(2*Lease)), "it may be late")
	require.NotNil(t, b.meet("a", at(3, 0), start.Add(2*Lease+2)))
}

func TestNewEpoch(t *testing.T) {
	b := newTable(nil)
	m := b.meet("a", at(5, 0), start)
	b.change("a", change(5, 1, "live", false), start)
	b.meet("a", at(6, 3), start)
	require.Empty(t, known(&b), "the routes of its last life are gone")
	require.True(t, m.isBehind())
	b.part("a", &part{beat: *at(6, 3), Routes: []string{"x", "y"}}, start)
	require.True(t, m.isBehind())
	b.part("a", &part{beat: *at(6, 3), Index: 1, Last: true, Routes: []string{"z"}}, start)
	require.False(t, m.isBehind())
	require.ElementsMatch(t, []string{"a x", "a y", "a z"}, known(&b))
	b.part("a", &part{beat: *at(6, 4), Last: true, Routes: []string{"y"}}, start)
	require.Equal(t, []string{"a y"}, known(&b))
}

// TestMixedSnapshots is about parts that get lost: parts of two snapshots do not make one.
func TestMixedSnapshots(t *testing.T) {
	b := newTable(nil)
	m := b.meet("a", at(5, 3), start)
	b.part("a", &part{beat: *at(5, 3), Routes: []string{"x"}}, start)
	b.part("a", &part{beat: *at(5, 4), Index: 1, Last: true, Routes: []string{"z"}}, start)
	require.True(t, m.isBehind())
	require.NotContains(t, known(&b), "a z")
	b.part("a", &part{beat: *at(5, 3), Index: 1, Last: true, Routes: []string{"y"}}, start)
	require.True(t, m.isBehind(), "what has begun is given up")
	b.part("a", &part{beat: *at(5, 4), Routes: []string{"y"}}, start)
	b.part("a", &part{beat: *at(5, 4), Index: 1, Last: true, Routes: []string{"z"}}, start)
	require.False(t, m.isBehind())
	require.ElementsMatch(t, []string{"a y", "a z"}, known(&b))
}

func TestTableLimits(t *testing.T) {
	b := newTable(nil)
	long := strings.Repeat("x", 4000)
	fill := func(id string) {
		b.meet(id, at(1, 0), start)
		for i := range uint64(maxShare/4000 + 10) {
			b.change(id, change(1, i+1, fmt.Sprintf("%s%08d", long, i), false), start)
		}
	}
	fill("a")
	m := b.members["a"]
	require.LessOrEqual(t, m.bytes, maxShare)
	require.Greater(t, m.bytes, maxShare-8000)
	require.NotZero(t, b.refused)
	require.False(t, m.isBehind(), "it is not asked again and again")
	for i := range 2 * maxTable / maxShare {
		fill(fmt.Sprint("b", i))
	}
	require.LessOrEqual(t, b.bytes, maxTable)
	for id := range b.members {
		b.leave(id, state{Epoch: 1})
	}
	require.Zero(t, b.bytes)
	require.Empty(t, b.of)

	for i := range 2 * maxMembers {
		b.meet(fmt.Sprint("n", i), at(1, 0), start)
	}
	require.Len(t, b.members, maxMembers)
	b.meet("n7", at(2, 0), start)
	require.Equal(t, uint64(2), b.members["n7"].Epoch, "those that are known stay")
}

// TestRoomAgain frees room for the routes of two nodes that had none.
func TestRoomAgain(t *testing.T) {
	b := newTable(nil)
	a, c := b.meet("a", at(1, 0), start), b.meet("c", at(1, 0), start)
	large := strings.Repeat("x", maxShare-routeCost-200)
	b.change("a", change(1, 1, large, false), start)
	b.change("a", change(1, 2, strings.Repeat("y", 200), false), start)
	b.change("a", change(1, 3, strings.Repeat("z", 150), false), start)
	b.change("c", change(1, 1, "live", false), start)
	b.recall(start)
	require.False(t, a.isBehind(), "there is no room")
	b.change("a", change(1, 4, large, true), start)
	b.recall(start)
	require.True(t, a.isBehind())
	require.False(t, c.isBehind(), "it had room for all")
	snapshot := &part{beat: *at(1, 4), Last: true, Routes: []string{"y", large, "z"}}
	b.part("a", snapshot, start)
	require.False(t, a.isBehind())
	require.ElementsMatch(t, []string{"a y", "a " + large, "a z", "c live"}, known(&b))

	b.change("a", change(1, 5, strings.Repeat("w", 200), false), start)
	b.change("a", change(1, 6, large, true), start)
	b.recall(start.Add(recallAgain - 1))
	require.False(t, a.isBehind(), "it is not asked again and again")
	b.recall(start.Add(recallAgain))
	require.True(t, a.isBehind())

	n, err := Join(Config{ID: "me", Card: func() Card { return aCard }}, nowhere{})
	require.NoError(t, err)
	defer n.Leave()
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now()
	n.table.meet("a", at(1, 0), now)
	n.table.change("a", change(1, 1, strings.Repeat("x", maxShare), false), now)
	n.table.members["a"].needs = 100
	n.tickLocked(now)
	require.True(t, n.table.members["a"].isBehind())
}

func TestTokens(t *testing.T) {
	deep := make(moqt.Namespace, moqt.MaxNamespaceFields)
	for i := range deep {
		deep[i] = strings.Repeat(string(rune('A'+i)), moqt.MaxFullTrackNameLen/moqt.MaxNamespaceFields)
	}
	require.NoError(t, deep.Validate())
	s := subjectsOf(strings.Repeat("c", maxNameLen))
	node := strings.Repeat("n", maxNameLen)
	subject := s.route(node, deep)
	require.Less(t, len(subject), 1100, "NATS takes control lines of 4,096 bytes")
	k, from, ok := s.parse(subject)
	require.True(t, ok)
	require.Equal(t, kindRoute, k)
	require.Equal(t, node, from)

	seen := make(map[string]string)
	for _, field := range []string{
		"a", "A", "a-b", "a.b", "a b", "*", ">", "\x00", "=", "=a", "\xff", "ä", strings.Repeat("x", maxToken),
		strings.Repeat("x", maxToken+1), strings.Repeat("x", maxToken+2), token(strings.Repeat("x", maxToken+1)),
	} {
		tk := token(field)
		require.NotContains(t, seen, tk, "%q", field)
		seen[tk] = field
		require.NotEmpty(t, tk)
		require.False(t, strings.ContainsAny(tk, ".*> \t\r\n"), "%q", tk)
		require.LessOrEqual(t, len(tk), maxToken)
	}
}

func TestParseSubject(t *testing.T) {
	s := subjectsOf("x")
	for _, subject := range []string{
		"", "sluice", "sluice.x", "sluice.x.", "sluice.x.beat", "sluice.x.beat.", "sluice.x.beat..a",
		"sluice.y.beat.a", "sluice.x.beat.a=", "sluice.x.beat." + strings.Repeat("a", maxNameLen+1),
	} {
		_, _, ok := s.parse(subject)
		require.False(t, ok, "%q", subject)
	}
	publish, _ := Permissions("x", "a")
	require.Equal(t, []string{"sluice.x.*.a", "sluice.x.*.a.>"}, publish)
}

// TestNamespaceOfSubject is about a change whose namespace is not its subject's.
func TestNamespaceOfSubject(t *testing.T) {
	n, err := Join(Config{ID: "me", Card: func() Card { return aCard }}, nowhere{})
	require.NoError(t, err)
	defer n.Leave()
	n.receive("sluice.sluice.beat.a", encode(at(5, 0)))
	for i, tokens := range []string{"a.live", "a", "a.live.b.c"} {
		n.receive("sluice.sluice.route."+tokens, encode(change(5, 1, "live-b", false)))
		require.EqualValues(t, i+1, n.Counts().Invalid)
	}
	n.receive("sluice.sluice.route.a.live.b", encode(change(5, 1, "live-b", false)))
	require.Equal(t, []string{"a live-b"}, known(&n.table))
	n.receive("sluice.sluice.route.a", encode(change(5, 2, "", false)))
	require.ElementsMatch(t, []string{"a live-b", "a "}, known(&n.table))
}

// nowhere is an engine without other nodes.
type nowhere struct{}

func (nowhere) Publish(string, []byte) error                    { return nil }
func (nowhere) Subscribe(func(string, []byte), ...string) error { return nil }
func (nowhere) Present() bool                                   { return true }
func (nowhere) Alone() bool                                     { return false }
func (nowhere) Close() error                                    { return nil }

// FuzzReceive gives any messages to a node.
func FuzzReceive(f *testing.F) {
	f.Add("sluice.sluice.beat.a", encode(beat{state: state{1, 0}, Card: aCard, New: true}),
		"sluice.sluice.route.a.live", encode(changeMessage{state{1, 1}, "live", false}))
	f.Add("sluice.sluice.snap.a.me", encode(part{beat: aBeat, Last: true, Routes: []string{"x-y", ""}}),
		"sluice.sluice.ask.a.me", []byte("{}"))
	f.Add("sluice.sluice.beat.me", encode(aBeat), "sluice.sluice.bye.a", encode(state{5, 0}))
	f.Add("sluice.sluice.beat.a", encode(beat{state: state{1, 0}, Card: aCard}),
		"sluice.sluice.near.a", encode(newNetworksMessage(state{1, 0}, Networks{network(1): time.Second})))
	f.Fuzz(func(t *testing.T, s1 string, m1 []byte, s2 string, m2 []byte) {
		defer testlimit.Start(t, len(s1)+len(m1)+len(s2)+len(m2), 1000)()
		n, err := Join(Config{ID: "me", Card: func() Card { return aCard }}, nowhere{})
		require.NoError(t, err)
		defer n.Leave()
		n.receive(s1, m1)
		n.receive(s2, m2)
		st := n.Status()
		require.LessOrEqual(t, len(st.Nodes), 3)
		_, err = json.Marshal(st)
		require.NoError(t, err)
	})
}
