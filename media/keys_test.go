package media

import (
	"crypto/tls"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/claim"
	"sluice/internal/packet"
	"sluice/internal/udp"
)

// A connection whose cipher suite is not known sends nothing.
func TestUnknownSuite(t *testing.T) {
	w := &world{t: t, clock: newFakeClock(), sock: new(fakeSocket)}
	w.loop = newLoop(LoopConfig{}, w.clock)
	w.shard = newShard(w.loop, w.sock, new(udp.Counters))
	w.loop.shards = []*shard{w.shard}
	w.s = w.loop.NewSender(SenderConfig{}).Hooks()
	w.s.PeerParameters(defaultParams())
	w.s.Keys(0, 0x1304, packet.Version1, nil, testSecret)
	w.path("192.0.2.1:4433", testMTU)
	w.stream(w.subscribe(), newTestLog(0, 10))
	require.Empty(t, w.run())
	require.NotZero(t, w.s.Stats().Reasons[BlockedKey])
}

// AES-GCM keys may protect 2^23 packets (RFC 9001 §6.6).
func TestConfidentialityLimit(t *testing.T) {
	w := newWorld(t)
	log := newTestLog(0, 10)
	w.stream(w.subscribe(), log)
	w.run()
	w.ack(time10)
	require.False(t, w.s.KeyUpdateDue())
	for range 3 { // quic-go's packets count too
		w.s.state.NextPN.Add(1 << 21)
		log.Append(testBytes(log.End(), 10))
		w.run()
		w.ack(time10)
		w.sleep(time.Second) // until the number that was skipped is done with
	}
	require.True(t, w.s.KeyUpdateDue())
	w.s.state.NextPN.Add(1 << 21)
	log.Append(testBytes(log.End(), 10))
	require.Empty(t, w.run(), "the limit is reached")
	secret := []byte("another secret of 32 bytes......")
	w.peer.opener.Update(secret)
	w.s.Keys(1, w.peer.suite, packet.Version1, nil, secret)
	require.Len(t, w.run(), 1)
	require.False(t, w.s.KeyUpdateDue())
}

// A packet number asks for the new key only when the key is installed, and each key has its own limit.
func TestKeyLimits(t *testing.T) {
	var k keys
	state := new(claim.ConnState)
	require.False(t, k.allow(0), "no key yet")
	for generation := range uint64(3) {
		key, err := packet.NewKey(generation, tls.TLS_AES_128_GCM_SHA256, packet.Version1, make([]byte, 32))
		require.NoError(t, err)
		state.NextPN.Add(1000)
		k.install(generation, tls.TLS_AES_128_GCM_SHA256, key, state)
		require.Equal(t, generation, state.NextPN.Load()>>claim.GenerationShift)
		require.True(t, k.allow(k.first+k.limit-1))
		require.False(t, k.allow(k.first+k.limit))
		require.False(t, k.due.Load())
		k.seal(make([]byte, 40, 60), 10, k.first+k.limit/2, generation)
		require.True(t, k.due.Load())
	}
	require.EqualValues(t, 3000, k.first)
}
