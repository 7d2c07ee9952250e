package server

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay"
	"sluice/server/cluster/clustertest"
	"sluice/transport"
)

// bySubject allows everything, to the subject that the token names.
type bySubject struct{}

func (bySubject) Authorize(_ context.Context, r relay.AuthRequest) (relay.Grant, error) {
	if len(r.Tokens) == 0 {
		return relay.Grant{}, nil
	}
	return relay.Grant{Subject: string(r.Tokens[0].Value)}, nil
}

// TestWithdrawInCluster withdraws a token at one node, and restores it at another one. Its bearers have to go at all
// nodes at once, and cannot come back until then.
func TestWithdrawInCluster(t *testing.T) {
	t.Parallel()
	onBus(t, func(t *testing.T, bus *clustertest.Bus) {
		cfg := Config{Relay: relay.Config{Authorizer: bySubject{}}}
		var nodes []*meshNode
		for _, name := range []string{"a", "b", "c"} {
			nodes = append(nodes, startNodeAs(t, bus, cfg, ClusterConfig{Node: name}))
		}
		admit := func(n *meshNode, subject string) (*relay.Guest, error) {
			return n.Relay().Admit(t.Context(), relay.AuthRequest{
				Kind: transport.RTSP, Remote: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 554},
				Tokens:    []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte(subject)}},
				Action:    relay.ActionSubscribe,
				Namespace: moqt.Namespace{"live"}, Name: "video",
			})
		}
		var gone, stay []*relay.Guest
		for _, n := range nodes {
			for subject, list := range map[string]*[]*relay.Guest{"alice": &gone, "bob": &stay} {
				g, err := admit(n, subject)
				require.NoError(t, err)
				*list = append(*list, g)
			}
		}
		_, err := relay.OperatorOf(nodes[0].Relay()).Withdrawn().Withdraw("alice", time.Hour)
		require.NoError(t, err)
		synctest.Wait()
		for i, n := range nodes {
			require.ErrorIs(t, context.Cause(gone[i].Context()), relay.ErrWithdrawn)
			require.NoError(t, stay[i].Context().Err())
			_, err := admit(n, "alice")
			require.ErrorContains(t, err, "withdrawn")
		}
		_, err = relay.OperatorOf(nodes[1].Relay()).Withdrawn().Restore("alice")
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range nodes {
			g, err := admit(n, "alice")
			require.NoError(t, err)
			stay = append(stay, g)
		}
		for _, g := range append(gone, stay...) {
			g.Leave()
		}
	})
}
