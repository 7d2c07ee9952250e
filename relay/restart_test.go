package relay

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

// leave sends PUBLISH_DONE, while streams of the publisher are on their way: what the test writes to them comes later.
func (s *source) leave(streams uint64) (onTheirWay []*subgroupStream) {
	pub, c := s.publication(), s.c
	for subgroup := range streams {
		str, err := c.conn.OpenUniStream()
		require.NoError(c.b.t, err)
		h := moqt.SubgroupHeader{
			TrackAlias: pub.Alias(), GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: subgroup,
			FirstObject: true,
		}
		g := &subgroupStream{c.b.t, str, moqt.NewSubgroupEncoder(c.Version().DataLayout(), h)}
		if _, err = str.Write(moqt.AppendSubgroupHeader(nil, c.Version(), h)); subgroup == 0 {
			g.object(0)
		}
		require.NoError(c.b.t, err)
		onTheirWay = append(onTheirWay, g)
	}
	pub.AddStreams(streams)
	require.NoError(c.b.t, pub.Done(moqt.DoneGoingAway, ""))
	synctest.Wait()
	return onTheirWay
}

// The last streams of a publisher that has sent PUBLISH_DONE are on their way when the next publisher comes.
// Subscribers get all of them.
func TestOldPublisherEndsItsGroup(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		old := b.next(nil)
		k, s := b.connect().mustSubscribe(moqt.Parameters{})
		streams := old.leave(2)
		next := b.next(new(at(1, 0)))
		next.group(2, 1)
		require.Equal(t, "1.0, 2.0, 2 fin", k.take())
		streams[0].object(1).fin()
		streams[1].object(2).object(3).fin()
		next.group(3, 1)
		require.Equal(t, "1.1, 1 fin, 1/1.2, 1/1.3, 1/1 fin, 3.0, 3 fin", k.take())
		require.Equal(t, 1, b.established(), "all that the old publisher has announced has come")
		require.NoError(t, s.Context().Err())
		require.Equal(t, "1.0, 1.1, 1/1.2, 1/1.3, fin", b.connect().fetch(standalone(at(1, 0), at(1, 4))).objects)
	})
}

// A publisher that has sent PUBLISH_DONE does not end a stream. The next publisher goes on in its place some time
// later, whichever of the two comes first.
func TestOldPublisherDoesNotEndItsGroup(t *testing.T) {
	for name, before := range map[string]bool{"before the next one": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				old := b.next(nil)
				k, _ := b.connect().mustSubscribe(moqt.Parameters{})
				if before {
					old.leave(1)
				}
				next := b.next(nil)
				if !before {
					old.leave(1)
				}
				next.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(1).fin()
				time.Sleep(29 * time.Second)
				require.Equal(t, "1.0", k.take(), "the old publisher may still go on")
				require.Equal(t, 2, b.established())
				time.Sleep(2 * time.Second)
				require.Equal(t, "1.1, 1 fin", k.take())
				require.Equal(t, 1, b.established())
			})
		})
	}
}

// The next publisher and the one that has sent PUBLISH_DONE contradict each other. The next one stands.
func TestNextPublisherContradictsTheOldOne(t *testing.T) {
	for name, contradict := range map[string]func(next *source, old *subgroupStream){
		"the next one is later": func(next *source, old *subgroupStream) {
			old.object(1)
			next.open(moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}).
				write(moqt.ObjectHeader{ObjectID: 1}, "other")
		},
		"the old one is later": func(next *source, old *subgroupStream) {
			next.open(moqt.SubgroupHeader{GroupID: 1, SubgroupIDMode: moqt.SubgroupIDPresent, SubgroupID: 1}).object(1)
			old.write(moqt.ObjectHeader{ObjectID: 1}, "other")
		},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				old := b.next(nil)
				k, s := b.connect().mustSubscribe(moqt.Parameters{})
				streams := old.leave(2)
				next := b.next(new(at(1, 0)))
				contradict(next, streams[1])
				k.take()
				next.group(3, 1)
				require.Equal(t, "3.0, 3 fin", k.take())
				require.NoError(t, s.Context().Err())
				require.NotNil(t, next.publication(), "it is not excluded")
				require.Equal(t, 1, b.established())
				_, err := (&source{}).offer(old.c, moqt.Parameters{})
				require.NoError(t, err, "it may publish the track again")
			})
		})
	}
}

// A publisher comes back, and does not say how far its track is. Whether it was restarted shows when its first object
// comes: until then, and if that is a new one, nothing is forgotten.
func TestPublisherComesBackWithoutLargestObject(t *testing.T) {
	for name, tt := range map[string]struct {
		goOn func(*source)
		want string // of the subscriber
		all  string // FETCH of all since group 1
	}{
		"next group": {
			func(s *source) { s.group(2, 1) }, "2.0, 2 fin", "1.0, 1.1, unknown to 1.max, 2.0, fin",
		},
		"the same group": {
			func(s *source) { s.open(moqt.SubgroupHeader{GroupID: 1}).object(2).fin() },
			"1.2, 1 fin", "1.0, 1.1, 1.2, fin",
		},
		"datagram": {
			func(s *source) {
				d := moqt.ObjectDatagram{Location: at(1, 2), Payload: []byte("object 2")}
				require.NoError(s.c.b.t, s.publication().SendDatagram(d))
			},
			"datagram 1.2", "1.0, 1.1, datagram 1.2, fin",
		},
		"restarted": {
			func(s *source) {
				s.open(moqt.SubgroupHeader{GroupID: 1}).write(moqt.ObjectHeader{}, "new").fin()
			},
			"1.0=new, 1 fin", "1.0=new, fin",
		},
		"restarted at an earlier group": {
			func(s *source) { s.group(0, 1); s.group(1, 1) }, "0.0, 0 fin, 1.0, 1 fin", "1.0, fin",
		},
		"restarted, and another group comes first": {
			func(s *source) {
				g := s.open(moqt.SubgroupHeader{GroupID: 1})
				synctest.Wait() // its header comes
				s.group(2, 1)
				g.write(moqt.ObjectHeader{}, "new").fin()
			},
			"1.0=new, 1 fin, 2.0, 2 fin", "1.0=new, unknown to 1.max, 2.0, fin",
		},
		"restarted with a datagram": {
			func(s *source) {
				d := moqt.ObjectDatagram{Location: at(1, 1), Payload: []byte("new")}
				require.NoError(s.c.b.t, s.publication().SendDatagram(d))
			},
			"datagram 1.1", "unknown to 1.0, datagram 1.1=new, fin",
		},
	} {
		for leave, f := range map[string]func(*source){
			"lost": func(s *source) { s.c.Session.Close(moqt.SessionInternalError, "") },
			"done": func(s *source) { s.leave(0) },
		} {
			t.Run(name+", "+leave, func(t *testing.T) {
				onBench(t, Config{}, func(b *bench) {
					before := b.next(nil)
					k, s := b.connect().mustSubscribe(moqt.Parameters{})
					before.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1).reset(9)
					require.Equal(t, "1.0, 1.1, 1 reset 9", k.take())
					f(before)
					synctest.Wait()
					after := b.next(nil)
					m := standalone(at(1, 0), at(1, 2))
					require.Equal(t, "1.0, 1.1, fin", b.connect().fetch(m).objects, "nothing is forgotten yet")
					tt.goOn(after)
					require.Equal(t, tt.want, k.take())
					m.End = at(9, 0)
					require.Equal(t, tt.all, b.connect().fetch(m).objects)
					require.NoError(t, s.Context().Err())
				})
			})
		}
	}
}

// A publisher breaks off within an object. Another one that does not know of that object is not an earlier one that was
// restarted: subscribers get nothing twice.
func TestNextPublisherDoesNotKnowTheLastObject(t *testing.T) {
	for name, tt := range map[string]struct {
		group   uint64 // of the object
		largest moqt.Location
	}{
		"in a group":                  {1, at(1, 1)},
		"at the beginning of a group": {2, at(1, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			onBench(t, Config{}, func(b *bench) {
				before := b.next(nil)
				k, _ := b.connect().mustSubscribe(moqt.Parameters{})
				g := before.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).object(1)
				if tt.group > 1 {
					g.fin()
					g = before.open(moqt.SubgroupHeader{GroupID: tt.group, FirstObject: true})
				}
				enc, err := g.encoder.AppendObject(nil, moqt.ObjectHeader{ObjectID: 2, PayloadLength: 8})
				require.NoError(t, err)
				_, err = g.stream.Write(append(enc, "obj"...))
				require.NoError(t, err)
				synctest.Wait()
				k.take()
				before.c.Session.Close(moqt.SessionInternalError, "")
				synctest.Wait()
				b.next(&tt.largest).group(1, 2)
				require.NotContains(t, k.take(), "1.0")
			})
		})
	}
}

// A subscriber has stopped the stream of a subgroup, which must not come again. A publisher that was restarted has
// another subgroup of that name.
func TestStoppedSubgroupAfterRestart(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		before := b.next(nil)
		k := &stopper{stop: true}
		sub, err := b.connect().Subscribe(b.ctx, moqt.Subscribe{Track: video}, k)
		require.NoError(t, err)
		_, err = sub.Wait(b.ctx)
		require.NoError(t, err)
		before.open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).object(0).reset(9)
		require.Empty(t, k.take())
		k.stop = false
		before.c.Session.Close(moqt.SessionInternalError, "")
		synctest.Wait()
		b.next(nil).open(moqt.SubgroupHeader{GroupID: 1, FirstObject: true}).write(moqt.ObjectHeader{}, "new").fin()
		require.Equal(t, "1.0=new, 1 fin", k.take())
	})
}

// A subscriber wants what is new. A publisher that was restarted begins with smaller ids.
func TestFilterAfterRestart(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		before := b.next(nil)
		before.group(7, 1)
		k, _ := b.connect().mustSubscribe(moqt.Parameters{Filter: &moqt.Filter{Type: moqt.FilterLargestObject}})
		before.c.Session.Close(moqt.SessionInternalError, "")
		synctest.Wait()
		b.next(nil).group(0, 1)
		require.Equal(t, "0.0, 0 fin", k.take())
	})
}

// A publisher goes on behind the end of the track, which the publisher before it has told.
func TestPublisherStartsAgainAfterTheEnd(t *testing.T) {
	onBench(t, Config{}, func(b *bench) {
		before := publishing["PUBLISH_NAMESPACE"](b)
		before.c.handler.fetch = (&archive{size: 1, largest: at(1, 0), end: true, flat: true}).serve
		require.Equal(t, "1.0, fin", b.connect().fetch(standalone(at(1, 0), at(9, 0))).objects)
		before.c.Session.Close(moqt.SessionInternalError, "")
		synctest.Wait()
		after := b.next(nil)
		k, _ := b.connect().mustSubscribe(moqt.Parameters{})
		after.group(10_001, 1)
		require.Equal(t, "10001.0, 10001 fin", k.take())
		require.Equal(t, 1, b.established())
	})
}
