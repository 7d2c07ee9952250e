package cluster_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/relay/withdrawn"
	"sluice/server/cluster"
)

// joinWith joins a node with a list of withdrawn tokens.
func (w *world) joinWith(id string, list *withdrawn.List) *cluster.Node {
	n, err := cluster.Join(cluster.Config{
		ID: id, Card: func() cluster.Card { return cluster.Card{URL: "moqt://" + id + ":4443"} }, Logger: w.logger,
		Withdrawn: list,
	}, w.bus.Engine(id))
	require.NoError(w.t, err)
	return n
}

// TestWithdrawnTokens withdraws a token at one node. All know at once, those that have missed the message within two
// seconds, and those that join later too, also when the first node has gone.
func TestWithdrawnTokens(t *testing.T) {
	inTime(t, func(w *world) {
		var lists []*withdrawn.List
		var nodes []*cluster.Node
		join := func() {
			lists = append(lists, withdrawn.New(func() {}))
			nodes = append(nodes, w.joinWith(fmt.Sprint("n", len(nodes)), lists[len(nodes)]))
		}
		knows := func(subject string) (names []int) {
			synctest.Wait()
			for i, l := range lists {
				if l.Has(subject) {
					names = append(names, i)
				}
			}
			return names
		}
		for range 3 {
			join()
		}
		time.Sleep(3 * time.Second)
		withdraw := func(subject string) {
			_, err := lists[0].Withdraw(subject, time.Hour)
			require.NoError(t, err)
			nodes[0].TellWithdrawn()
		}
		withdraw("alice")
		require.Equal(t, []int{0, 1, 2}, knows("alice"))

		w.bus.SetLose(func(to, _ string) bool { return to == "n2" })
		withdraw("bob")
		require.Equal(t, []int{0, 1}, knows("bob"))
		w.bus.SetLose(nil)
		time.Sleep(2 * time.Second)
		require.Equal(t, []int{0, 1, 2}, knows("bob"))

		require.NoError(t, nodes[0].Leave())
		join()
		time.Sleep(2 * time.Second)
		require.Equal(t, []int{0, 1, 2, 3}, knows("alice"))
		require.Equal(t, []int{0, 1, 2, 3}, knows("bob"))

		_, err := lists[3].Restore("alice")
		require.NoError(t, err)
		nodes[3].TellWithdrawn()
		require.Equal(t, []int{0}, knows("alice"), "the node that has left")
		leaveAll(nodes[1:]...)
	})
}

// TestWithdrawnTokensAreQuiet counts messages: when all know the same, nobody tells it again, and of many that could
// tell a newcomer, few do.
func TestWithdrawnTokensAreQuiet(t *testing.T) {
	inTime(t, func(w *world) {
		const others = 20
		told := make(map[string]bool)
		w.bus.SetLose(func(_, subject string) bool {
			var node string
			if _, err := fmt.Sscanf(subject, "sluice.sluice.taken.%s", &node); err == nil {
				told[node] = true
			}
			return false
		})
		var nodes []*cluster.Node
		for i := range others {
			list := withdrawn.New(func() {})
			nodes = append(nodes, w.joinWith(fmt.Sprint("n", i), list))
			if i == 0 {
				_, err := list.Withdraw("alice", time.Hour)
				require.NoError(t, err)
			}
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		clear(told)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Empty(t, told)

		newcomer := withdrawn.New(func() {})
		nodes = append(nodes, w.joinWith("late", newcomer))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.True(t, newcomer.Has("alice"))
		require.Less(t, len(told), others)
		leaveAll(nodes...)
	})
}

// TestWithdrawnMessagesAreChecked sends what no node sends.
func TestWithdrawnMessagesAreChecked(t *testing.T) {
	inTime(t, func(w *world) {
		list := withdrawn.New(func() {})
		n := w.joinWith("a", list)
		liar := w.bus.Engine("liar")
		for _, text := range []string{
			`{"entries":[{"subject":"","set":"2000-01-01T00:00:00Z","until":"2000-01-02T00:00:00Z"}]}`,
			`{"entries":[{"subject":"alice","set":"2000-01-01T00:00:00Z","until":"2100-01-01T00:00:00Z"}]}`,
			`{"entries":[{"subject":"alice","set":"2000-01-02T00:00:00Z","until":"2000-01-01T00:00:00Z"}]}`,
			`{"entries":[{"subject":"alice","set":"9999-12-31T23:59:59Z","until":"9999-12-31T23:59:59Z"}]}`,
			`{"entries":7}`,
		} {
			require.NoError(t, liar.Publish("sluice.sluice.taken.liar", []byte(text)))
		}
		synctest.Wait()
		require.Equal(t, uint64(5), n.Counts().Invalid)
		require.Empty(t, list.All())
		leaveAll(n)
		require.NoError(t, liar.Close())
	})
}

func leaveAll(nodes ...*cluster.Node) {
	for _, n := range nodes {
		_ = n.Leave()
	}
}
