package hub

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/relay/internal/charge"
)

// publisher adds a publisher that has accepted.
func (h *Hub) publisher(p *Peer) *upstream {
	u := newUpstream(h, p)
	u.sequence = 1 + len(h.publishers.of)
	close(u.ready)
	h.publishers.of[p] = u
	h.fast.update()
	return u
}

// The kernel does not compare objects, so the groups that a publisher may send again, in another one's place, are not
// left to it.
func TestRepeatedGroupsAreNotForwarded(t *testing.T) {
	h := aloneHub(slog.DiscardHandler)
	wanted := moqt.Range{Start: moqt.Location{Group: 1, Object: 1}, End: moqt.Location{Group: 9}}
	first := h.publisher(new(Peer))
	h.data.RaiseLargest(moqt.Location{Group: 4})
	h.fast.update()
	require.Equal(t, wanted, first.unrepeated(wanted), "nothing came before")
	second := h.publisher(new(Peer))
	h.data.RaiseLargest(moqt.Location{Group: 5})
	delete(h.publishers.of, first.peer)
	first.leave()
	h.fast.update()
	require.Equal(t, moqt.Range{Start: moqt.Location{Group: 6}, End: wanted.End}, second.unrepeated(wanted))
}

// Groups that were missed come twice: in a response to FETCH, and perhaps on the subscription.
func TestRefilledGroupsAreNotForwarded(t *testing.T) {
	u := aloneHub(slog.DiscardHandler).publisher(new(Peer))
	u.newRefill(moqt.Range{Start: moqt.Location{Group: 1}, End: moqt.Location{Group: 3}})
	require.Equal(t, moqt.Location{Group: 4}, u.unrepeated(moqt.Everything).Start)
}

// A publisher whose datagrams exceed its quota is not left to the kernel, which would forward them all.
func TestDatagramsBeyondTheQuotaAreNotForwarded(t *testing.T) {
	accounts := charge.NewAccounts(charge.Config{
		Logger:     slog.New(slog.DiscardHandler),
		PerAddress: charge.Quota{Upload: 100_000}.WithDefaults(charge.PerAddress),
		Refusals:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refusals"}, []string{"account", "quota"}),
	})
	address, refused := accounts.OpenAddress(netip.MustParsePrefix("192.0.2.1/32"), false)
	require.Nil(t, refused)
	p := new(Peer)
	p.Open(address)
	u := aloneHub(slog.DiscardHandler).publisher(p)
	o := &moqt.ObjectDatagram{Payload: make([]byte, 1000)}
	u.receiver.HandleDatagram(o)
	require.False(t, u.limited)
	for o.Location.Object = range uint64(100) {
		u.receiver.HandleDatagram(o)
	}
	require.True(t, u.limited)
}
