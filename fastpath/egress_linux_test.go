package fastpath

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/moqt"
)

// TestWithoutEgress detaches client_egress from the subscribers' device. The kernel loses one copy; then it leaves the
// subscriber to user space, until a packet of the stack has passed client_egress.
func TestWithoutEgress(t *testing.T) {
	r := newRig(t, lab.Topology{Subscribers: 1}, false)
	r.subscribeAll()
	s := r.subscribers[0]
	r.publish(subgroupBegins(3))
	r.receive(s)
	device := r.lab.Relay.Facing(r.lab.Subscribers[0])
	require.NoError(t, r.detachEgress(device))
	for id := uint64(7); id < 31; id += 4 {
		r.publish(subgroupBegins(id))
	}
	require.Equal(t, map[string]uint64{"sent": 1, "lost": 1, "no_neighbor": 5}, r.Copies(s.index))

	require.NoError(t, r.attachEgress(device))
	r.publish(subgroupBegins(31))
	require.EqualValues(t, 6, r.Copies(s.index)["no_neighbor"])
	r.greet(s)
	r.publish(subgroupBegins(35))
	require.EqualValues(t, 11, r.receive(s).stream, "its third one: the copy that was lost had opened the second")
}

// TestObjectsWithoutEgress has an object come in a datagram while client_egress is not there. The kernel cannot send
// it, so user space does.
func TestObjectsWithoutEgress(t *testing.T) {
	r, track := objectRig(t, 2)
	r.publish(object(1, 1))
	for _, s := range r.subscribers {
		r.receiveDatagram(s)
	}
	require.Len(t, track.ClaimObject(moqt.Location{Group: 1, Object: 1}), 2)
	require.NoError(t, r.detachEgress(r.lab.Relay.Facing(r.lab.Subscribers[0])))
	r.publish(object(1, 2))
	require.EqualValues(t, 2, r.counts()["copy_lost"])
	require.Empty(t, track.ClaimObject(moqt.Location{Group: 1, Object: 2}))
}

// detachEgress detaches client_egress from a device, as an operator could.
func (r *rig) detachEgress(d *lab.Device) error {
	program, err := r.egress.ClientEgress.Info()
	require.NoError(r.t, err)
	id, _ := program.ID()
	var index uint32
	require.NoError(r.t, r.lab.Relay.Do(func() error {
		index = uint32(r.index(d))
		return nil
	}))
	for _, l := range r.links {
		info, err := l.Info()
		require.NoError(r.t, err)
		if at := info.TCX(); info.Program == id && at.Ifindex == index {
			return l.Close()
		}
	}
	return errors.New("client_egress is not there")
}

// attachEgress attaches client_egress to a device again, until the test ends.
func (r *rig) attachEgress(d *lab.Device) error {
	return r.lab.Relay.Do(func() error {
		l, err := link.AttachTCX(link.TCXOptions{
			Interface: r.index(d), Program: r.egress.ClientEgress, Attach: ebpf.AttachTCXEgress,
		})
		if err == nil {
			r.t.Cleanup(func() { require.NoError(r.t, l.Close()) })
		}
		return err
	})
}
