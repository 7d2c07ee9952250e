package relay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"sluice/lab/hostile"
	"sluice/moqt"
)

// TestHostilePeers attacks the relay while another peer publishes and a third one watches: they must not notice. With
// -short, as make race runs it, each attack comes by one transport.
func TestHostilePeers(t *testing.T) {
	defer goleak.VerifyNone(t)
	t.Run("beside others", func(t *testing.T) { // ends when all have ended
		for i, attack := range hostile.Attacks {
			for j, scheme := range []string{"moqt", "https"} {
				t.Run(attack.Name+" "+scheme, func(t *testing.T) {
					if testing.Short() && i%2 != j {
						t.Skip("the other transport is enough")
					}
					virtually(t, func(t *testing.T, n *network) { underAttack(t, n, scheme, attack) })
				})
			}
		}
	})
}

// underAttack publishes before, during and after an attack.
func underAttack(t *testing.T, n *network, scheme string, attack hostile.Attack) {
	pub, pubs := n.publisher("moqt")
	sub, watching := n.watch(n.connect("https", nil))

	publication, want := <-pubs, make(map[moqt.Location]string)
	publish := func(group uint64) {
		h := moqt.SubgroupHeader{GroupID: group, FirstObject: true}
		stream, err := publication.OpenSubgroup(t.Context(), h)
		require.NoError(t, err)
		encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
		for o := range uint64(10) {
			body := frame(group, o)[:100] // an attack looks at the size of the cache
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
	p := hostile.NewPeer(video)
	p.Cache = n.relay.cache
	p.Session, p.Conn = n.dial(scheme, p)
	<-p.Ready()
	over := make(chan error, 1)
	go func() { over <- attack.Run(p) }()
	for group := uint64(1); ; group++ {
		publish(group)
		select {
		case err := <-over:
			require.NoError(t, err)
			publish(group + 1)
			watching.await(t, want)
			require.NoError(t, sub.Context().Err())
			require.NoError(t, pub.Context().Err())
			return
		case <-time.After(200 * time.Millisecond):
		}
	}
}
