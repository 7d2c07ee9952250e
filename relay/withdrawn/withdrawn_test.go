package withdrawn

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestList withdraws tokens and restores them.
func TestList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		added, told := 0, 0
		l := New(func() { added++ })
		l.OnChange(func() { told++ })
		_, err := l.Withdraw("alice", time.Hour)
		require.NoError(t, err)
		require.Equal(t, []any{true, false, 1}, []any{l.Has("alice"), l.Has("bob"), added})
		require.NotZero(t, l.Hash())

		_, err = l.Restore("alice")
		require.NoError(t, err)
		require.False(t, l.Has("alice"))
		_, err = l.Restore("alice")
		require.ErrorIs(t, err, ErrUnknown)
		require.Len(t, l.All(), 1, "others may not know yet")

		_, err = l.Withdraw("alice", time.Minute)
		require.NoError(t, err)
		require.True(t, l.Has("alice"))
		time.Sleep(time.Minute + time.Second)
		require.False(t, l.Has("alice"))
		require.Empty(t, l.All())
		require.Zero(t, l.Hash())
		require.Equal(t, []int{2, 3}, []int{added, told})
	})
}

// TestListRefuses gives a list entries that it cannot have.
func TestListRefuses(t *testing.T) {
	l := New(func() {})
	for _, subject := range []string{"", strings.Repeat("x", MaxSubject+1)} {
		_, err := l.Withdraw(subject, time.Hour)
		require.ErrorContains(t, err, "length of subject")
	}
	for _, life := range []time.Duration{0, -time.Hour, MaxFor + 1} {
		_, err := l.Withdraw("alice", life)
		require.ErrorContains(t, err, "for: ")
	}
	for i := range MaxEntries {
		_, err := l.Withdraw(fmt.Sprint(i), time.Hour)
		require.NoError(t, err)
	}
	_, err := l.Withdraw("alice", time.Hour)
	require.ErrorIs(t, err, ErrFull)
	_, err = l.Withdraw("7", time.Hour)
	require.NoError(t, err, "it has a place")
	now := time.Now()
	require.ErrorIs(t, l.Merge([]Entry{{Subject: "alice", Set: now, Until: now.Add(time.Hour)}}), ErrFull)
	require.False(t, l.Has("alice"))
}

// TestSameTime has two operators withdraw and restore at the same moment: all relays take the withdrawal.
func TestSameTime(t *testing.T) {
	now := time.Now()
	both := []Entry{
		{Subject: "alice", Set: now, Until: now.Add(time.Hour)},
		{Subject: "alice", Set: now, Until: now.Add(2 * time.Hour), Restored: true},
	}
	for _, first := range []int{0, 1} {
		l := New(func() {})
		require.NoError(t, l.Merge(both[first:first+1]))
		require.NoError(t, l.Merge(both))
		require.Equal(t, both[:1], l.All())
		require.True(t, l.Has("alice"))
	}
}

// TestListsConverge has three relays withdraw and restore tokens, with clocks that differ, and tell each other in any
// order. All come to the same list, and the last word about a subject counts.
func TestListsConverge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	synctest.Test(t, func(t *testing.T) {
		lists := []*List{New(func() {}), New(func() {}), New(func() {})}
		ahead, err := lists[0].Withdraw("alice", time.Hour)
		require.NoError(t, err)
		ahead.Set = ahead.Set.Add(time.Minute) // its clock
		require.NoError(t, lists[1].Merge([]Entry{ahead}))
		_, err = lists[1].Restore("alice")
		require.NoError(t, err)
		require.NoError(t, lists[1].Merge([]Entry{ahead}))
		require.False(t, lists[1].Has("alice"), "restored after the withdrawal, by a clock that is behind")
		for range 200 {
			l := lists[random.IntN(len(lists))]
			subject := fmt.Sprint(random.IntN(5))
			if random.IntN(2) == 0 {
				_, err := l.Withdraw(subject, time.Hour)
				require.NoError(t, err)
			} else if l.Has(subject) {
				_, err := l.Restore(subject)
				require.NoError(t, err)
			}
			time.Sleep(time.Duration(random.IntN(2)) * time.Millisecond)
			require.NoError(t, lists[random.IntN(len(lists))].Merge(l.All()))
		}
		for range 2 {
			for _, a := range lists {
				for _, b := range lists {
					require.NoError(t, a.Merge(b.All()))
				}
			}
		}
		for _, l := range lists[1:] {
			require.Equal(t, lists[0].All(), l.All())
			require.Equal(t, lists[0].Hash(), l.Hash())
		}
	})
}

// TestEndOfTime has another relay tell of a time so late that no later one can be told.
func TestEndOfTime(t *testing.T) {
	last := time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	e := Entry{Subject: "alice", Set: last, Until: last}
	require.ErrorContains(t, e.Validate(), "year")
	last = last.AddDate(maxYear-9999, 0, 0)
	e.Set, e.Until = last, last
	require.NoError(t, e.Validate())
	l := New(func() {})
	require.NoError(t, l.Merge([]Entry{e}))
	_, err := l.Withdraw("alice", time.Hour)
	require.ErrorContains(t, err, "year")
	require.Equal(t, []Entry{e}, l.All())
}
