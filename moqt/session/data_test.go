package session

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/transport"
	"sluice/transport/transporttest"
)

func subgroupHeader(alias uint64) []byte {
	h := moqt.SubgroupHeader{TrackAlias: alias, GroupID: 300, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 4}
	return moqt.AppendSubgroupHeader(nil, moqt.Draft18, h)
}

func fetchHeader(id uint64) []byte {
	return moqt.AppendFetchHeader(nil, moqt.Draft18, moqt.FetchHeader{RequestID: id})
}

func datagram(t *testing.T, o moqt.ObjectDatagram) []byte {
	b, err := moqt.AppendDatagramHeader(nil, moqt.Draft18, &o)
	require.NoError(t, err)
	return append(b, o.Payload...)
}

func TestDataThatEndsTheSession(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*script)
		want moqt.SessionErrorCode
	}{
		{"unknown stream type", func(p *script) { p.uni([]byte{0x06}) }, moqt.SessionProtocolViolation},
		{"empty stream", func(p *script) { require.NoError(p, p.uni(nil).Close()) }, moqt.SessionProtocolViolation},
		{"FIN within SUBGROUP_HEADER", func(p *script) {
			require.NoError(p, p.uni(subgroupHeader(1)[:2]).Close())
		}, moqt.SessionProtocolViolation},
		{"FIN within FETCH_HEADER", func(p *script) {
			require.NoError(p, p.uni(fetchHeader(0)[:1]).Close())
		}, moqt.SessionProtocolViolation},
		{"header that is never completed", func(p *script) { p.uni(subgroupHeader(1)[:2]) },
			moqt.SessionDataStreamTimeout},
		{"stream type that is never completed", func(p *script) { p.uni([]byte{0xff}) }, moqt.SessionDataStreamTimeout},
		{"fetch stream of a request of the sender", func(p *script) { p.uni(fetchHeader(1)) },
			moqt.SessionProtocolViolation},
		{"fetch stream of a request that was never made", func(p *script) { p.uni(fetchHeader(8)) },
			moqt.SessionProtocolViolation},
		{"second fetch stream", func(p *script) {
			_, err := p.s.Fetch(p.Context(), moqt.Fetch{FetchType: moqt.FetchStandalone, Track: testTrack})
			require.NoError(p, err)
			p.uni(fetchHeader(0))
			p.uni(fetchHeader(0))
		}, moqt.SessionProtocolViolation},
		{"unknown datagram type", func(p *script) { require.NoError(p, p.conn.SendDatagram([]byte{0x10})) },
			moqt.SessionProtocolViolation},
		{"empty datagram", func(p *script) { require.NoError(p, p.conn.SendDatagram(nil)) },
			moqt.SessionProtocolViolation},
		{"datagram that ends within its header", func(p *script) {
			require.NoError(p, p.conn.SendDatagram([]byte{0, 1, 0}))
		}, moqt.SessionProtocolViolation},
	} {
		t.Run(tc.name, func(t *testing.T) {
			play(t, setting{}, func(p *script) {
				tc.do(p)
				p.requireClosed(tc.want)
			})
		})
	}
}

// QUIC opens a stream with any later one. While there is a subscription, its publisher may be behind; after that,
// nobody waits for the stream.
func TestStreamsWithoutBytes(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		sub, _ := p.subscribed(testTrack, 7, c)
		never, late := p.uni(nil), p.uni(nil)
		require.NoError(p, p.uni(append(subgroupHeader(7), "later"...)).Close())
		require.Equal(p, "later", string((<-c.subgroups).body))
		time.Sleep(10 * time.Minute)
		p.write(late, subgroupHeader(7)[:1])
		time.Sleep(29 * time.Second) // from the first byte on
		p.write(late, append(subgroupHeader(7)[1:], "late"...))
		require.NoError(p, late.Close())
		require.Equal(p, "late", string((<-c.subgroups).body))
		sub.Cancel(moqt.ResetCancelled)
		p.requireStopped(never, moqt.ResetCancelled)
		p.requireOpen()
	})
}

func TestDataAheadOfItsAlias(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		c.datagrams = make(chan *moqt.ObjectDatagram) // it takes its time
		_, e := p.subscribe(testTrack, c)
		send := func(payload string) {
			o := moqt.ObjectDatagram{TrackAlias: 9, Payload: []byte(payload)}
			require.NoError(p, p.conn.SendDatagram(datagram(p.T, o)))
		}
		require.NoError(p, p.uni(append(subgroupHeader(9), "early"...)).Close())
		send("1")
		send("2")
		time.Sleep(time.Second)
		e.send(&moqt.SubscribeOK{TrackAlias: 9})
		require.Equal(p, "early", string((<-c.subgroups).body))
		send("3")
		time.Sleep(time.Second) // it waits until all goroutines do, and a mutex does not count
		var got []string
		for range 3 {
			got = append(got, string((<-c.datagrams).Payload))
		}
		require.ElementsMatch(p, []string{"1", "2", "3"}, got, "a new one may overtake those that were held")
	})
}

func TestDataOfAnUnknownAliasIsStopped(t *testing.T) {
	cfg := Config{Limits: Limits{MaxHeldStreams: 2, MaxHeldDatagrams: 2*heldOverhead + 20}}
	play(t, setting{cfg: cfg}, func(p *script) {
		first, second := p.uni(subgroupHeader(9)), p.uni(subgroupHeader(9))
		time.Sleep(time.Millisecond)
		third := p.uni(subgroupHeader(9))
		started := time.Now()
		p.requireStopped(third, moqt.ResetCancelled)
		require.Zero(p, time.Since(started), "there is room for two")
		p.requireStopped(first, moqt.ResetCancelled)
		p.requireStopped(second, moqt.ResetCancelled)
		require.Equal(p, 2*time.Second-time.Millisecond, time.Since(started))

		c := newCollector()
		for range 3 { // two fit
			o := moqt.ObjectDatagram{TrackAlias: 7, Payload: []byte("1234")}
			require.NoError(p, p.conn.SendDatagram(datagram(p.T, o)))
		}
		time.Sleep(time.Millisecond)
		p.subscribed(testTrack, 7, c)
		<-c.datagrams
		<-c.datagrams
		p.requireOpen()
		require.Empty(p, c.datagrams)
	})
}

func TestHeldDatagramsExpire(t *testing.T) {
	play(t, setting{}, func(p *script) {
		send := func(payload string) {
			o := moqt.ObjectDatagram{TrackAlias: 7, Payload: []byte(payload)}
			require.NoError(p, p.conn.SendDatagram(datagram(p.T, o)))
		}
		send("old")
		time.Sleep(3 * time.Second)
		send("new")
		time.Sleep(time.Millisecond)
		c := newCollector()
		p.subscribed(testTrack, 7, c)
		require.Equal(p, "new", string((<-c.datagrams).Payload))
	})
}

func TestLateDataIsDiscardedAtOnce(t *testing.T) {
	play(t, setting{}, func(p *script) {
		c := newCollector()
		sub, e := p.subscribed(testTrack, 9, c)
		open := p.uni(subgroupHeader(9))
		time.Sleep(time.Millisecond)
		sub.Cancel(moqt.ResetCancelled)
		p.requireStopped(e, moqt.ResetCancelled)
		p.requireStopped(open, moqt.ResetCancelled) // draft §10.11
		require.Equal(p, &transport.StreamError{Code: 1}, (<-c.subgroups).err)

		started := time.Now()
		p.requireStopped(p.uni(subgroupHeader(9)), moqt.ResetCancelled)
		require.NoError(p, p.conn.SendDatagram(datagram(p.T, moqt.ObjectDatagram{TrackAlias: 9})))
		p.requireOpen()
		require.Zero(p, time.Since(started))
		require.Empty(p, c.datagrams)
	})
}

// TestAliasIsFreeWhileItsSubscriptionDrains plays a publisher that uses an alias again after PUBLISH_DONE.
func TestAliasIsFreeWhileItsSubscriptionDrains(t *testing.T) {
	play(t, setting{}, func(p *script) {
		sub, e := p.subscribed(testTrack, 9, newCollector())
		e.send(&moqt.PublishDone{StreamCount: 1})
		<-sub.Ending()
		c := newCollector()
		p.subscribed(otherTrack, 9, c)
		p.subscribed(testTrack, 8, newCollector()) // the track is free, too
		require.NoError(p, p.uni(append(subgroupHeader(9), "new"...)).Close())
		require.Equal(p, "new", string((<-c.subgroups).body))
		<-sub.Context().Done()
		require.NoError(p, p.uni(append(subgroupHeader(9), "newer"...)).Close())
		require.Equal(p, "newer", string((<-c.subgroups).body))
	})
}

func TestRetiredAliasesAreBounded(t *testing.T) {
	var table aliasTable
	for alias := range uint64(3 * maxRetiredAliases) {
		table.retire(alias)
	}
	require.Len(t, table.retired, maxRetiredAliases)
	_, retired := table.lookup(3*maxRetiredAliases - 1)
	require.True(t, retired)
	_, retired = table.lookup(0)
	require.False(t, retired)
}

// TestBadDatagramsAheadOfTheirAlias checks that a datagram whose track is not known yet is judged as any other one.
func TestBadDatagramsAheadOfTheirAlias(t *testing.T) {
	for name, malformed := range map[string]bool{"malformed": true, "properties are too long": false} {
		t.Run(name, func(t *testing.T) {
			play(t, setting{}, func(p *script) {
				bad := []byte{0x09, 9, 0, 1, 2, 0x3e, 5} // a Prior Object ID Gap of 5 before object 1
				if !malformed {
					bad = moqt.AppendVarint(bad[:4], moqt.MaxObjectPropertiesLen+1)
				}
				c := newCollector()
				require.NoError(p, p.conn.SendDatagram(bad))
				good := moqt.ObjectDatagram{TrackAlias: 9, Payload: []byte("good")}
				require.NoError(p, p.conn.SendDatagram(datagram(p.T, good)))
				time.Sleep(time.Millisecond)
				sub, e := p.subscribe(testTrack, c)
				e.send(&moqt.SubscribeOK{TrackAlias: 9}) // which may end the subscription before anybody sees it begin
				if malformed {
					p.requireStopped(e, moqt.ResetMalformedTrack)
					require.IsType(p, &moqt.MalformedTrackError{}, context.Cause(sub.Context()))
				} else {
					require.Equal(p, "good", string((<-c.datagrams).Payload))
				}
				p.requireOpen()
				require.Empty(p, c.datagrams)
			})
		})
	}
}

func TestPaddingIsDiscarded(t *testing.T) {
	play(t, setting{pipe: transporttest.PipeConfig{StreamWindow: 1000}}, func(p *script) {
		stream := p.uni(moqt.AppendPaddingStreamType(nil, moqt.Draft18))
		p.write(stream, make([]byte, 100_000)) // blocks unless it is read
		require.NoError(p, stream.Close())
		require.NoError(p, p.conn.SendDatagram(moqt.AppendPaddingDatagram(nil, moqt.Draft18, 1000)))
		p.uni(moqt.AppendPaddingStreamType(nil, moqt.Draft18)).CancelWrite(0)
		p.requireOpen()
	})
}

func TestStreamsThatAreNeverUsed(t *testing.T) {
	play(t, setting{cfg: Config{Role: Server}}, func(p *script) {
		uni, err := p.conn.OpenUniStream()
		require.NoError(p, err)
		bidi, err := p.conn.OpenStream()
		require.NoError(p, err)
		p.uni(moqt.AppendPaddingStreamType(nil, moqt.Draft18)) // opens the first one, too
		p.raw(p.encode(&moqt.TrackStatus{Track: testTrack}))
		p.requireStopped(uni, moqt.ResetCancelled)
		p.requireStopped(bidi, moqt.ResetCancelled)
		p.requireOpen()
	})
}
