package track

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
)

func TestFetchWriter(t *testing.T) {
	k := newSink(CacheConfig{})
	require.NoError(t, came{group: 1, objects: objects(1)}.arrive(k))
	f := k.track.NewFetchWriter()
	for _, o := range []moqt.FetchObject{
		{Location: loc(1, 0)}, {Location: loc(1, 1)}, {Location: loc(1, 2), SubgroupID: 4}, {Location: loc(1, 3)},
		{Location: loc(1, 4), Datagram: true}, {Location: loc(2, 0)},
	} {
		p := object(o.Location.Object).payload
		if o.Location == loc(1, 1) {
			o.Priority = 0
		}
		o.PayloadLength = uint64(len(p))
		require.NoError(t, f.Begin(&o, false))
		for i := range p {
			require.NoError(t, f.Write([]byte(p[i:i+1])))
		}
	}
	require.NoError(t, f.Begin(&moqt.FetchObject{Location: loc(2, 1), PayloadLength: 5}, false))
	require.Len(t, f.segments, 1)
	require.NoError(t, f.Write([]byte("cut")))
	f.Close()
	require.Equal(t, "object 1.0/0, object 1.1/0, object 1.2/4, object 1.3/0, datagram 1.4, unknown 1.5-1.max, "+
		"object 2.0/0, unknown 2.1-2.1",
		walk(t, k.track, moqt.Range{Start: loc(1, 0), End: loc(2, 1)}, time.Time{}))

	k.segments = nil
	require.NoError(t, came{group: 1, objects: objects(0, 1, 3)}.arrive(k))
	require.Equal(t, objects(0), received(t, k.segments[0]), "fetched objects are new to subscribers")
	require.Equal(t, objects(3), received(t, k.segments[1]))
	p, _ := k.track.index.group(1).find(0)
	require.True(t, p.wasSent())
	k.track.Close()
	require.Zero(t, k.cache.Bytes())
}

func TestFetchWriterOfMalformedTracks(t *testing.T) {
	payload := object(1).payload
	tests := map[string]struct {
		object  moqt.FetchObject
		payload string
		came    came
	}{
		"another payload": {moqt.FetchObject{Location: loc(1, 1)}, strings.ToUpper(payload),
			came{group: 1, objects: objects(1)}},
		"another length": {moqt.FetchObject{Location: loc(1, 1)}, payload + "!",
			came{group: 1, objects: objects(1)}},
		"another datagram": {moqt.FetchObject{Location: loc(1, 1), Datagram: true}, strings.ToUpper(payload),
			came{group: 1, objects: objects(1), datagram: true}},
		"another subgroup": {moqt.FetchObject{Location: loc(1, 1), SubgroupID: 1}, payload,
			came{group: 1, objects: objects(1)}},
		"another preference": {moqt.FetchObject{Location: loc(1, 1), Datagram: true}, payload,
			came{group: 1, objects: objects(1)}},
		"another priority": {moqt.FetchObject{Location: loc(1, 1), Priority: 1}, payload,
			came{group: 1, objects: objects(1)}},
		"after the end": {moqt.FetchObject{Location: loc(1, 2)}, payload,
			came{group: 1, objects: objects(1), endOfGroup: true, fin: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			k := newSink(CacheConfig{})
			require.NoError(t, tt.came.arrive(k))
			f := k.track.NewFetchWriter()
			defer f.Close()
			tt.object.PayloadLength = uint64(len(tt.payload))
			err := f.Begin(&tt.object, false)
			if err == nil {
				err = f.Write([]byte(tt.payload))
			}
			var malformed *moqt.MalformedTrackError
			require.ErrorAs(t, err, &malformed)
		})
	}
}

// A response overtakes the stream that brings the same object, and more of that comes before the rest of the response.
func TestFetchWriterOvertakesAStream(t *testing.T) {
	b, payload := encode(plain, object(0)), object(0).payload
	header, last := len(b)-len(payload), len(payload)-1
	fetch := func(overtaken int, rest string) error {
		k := newSink(CacheConfig{})
		s, f := k.source(plain), k.track.NewFetchWriter()
		defer f.Close()
		require.NoError(t, feed(s, b[:header+overtaken]))
		require.NoError(t, f.Begin(&moqt.FetchObject{
			Location: loc(plain.GroupID, 0), Priority: 128, PayloadLength: uint64(len(payload)),
		}, false))
		require.NoError(t, f.Write([]byte(payload[:last])))
		require.NoError(t, feed(s, b[header+overtaken:]))
		return f.Write([]byte(rest))
	}
	for overtaken := range payload {
		require.NoError(t, fetch(overtaken, payload[last:]), "%d bytes", overtaken)
		require.ErrorContains(t, fetch(overtaken, "!"), "different payloads", "%d bytes", overtaken)
	}
}

// A publisher may not have told the priority, a datagram be as large as UDP allows, and a track not be kept.
func TestFetchWriterBegins(t *testing.T) {
	k := newSink(CacheConfig{})
	require.NoError(t, came{group: 1, priority: 7, objects: objects(1)}.arrive(k))
	f := k.track.NewFetchWriter()
	for group, want := range map[uint64]uint8{1: 7, 2: 9} {
		o := moqt.FetchObject{Location: loc(group, 5), Priority: 9}
		require.NoError(t, f.Begin(&o, true))
		require.Equal(t, want, o.Priority, "group %d", group)
	}
	largest := moqt.FetchObject{Location: loc(1, 6), Datagram: true, PayloadLength: maxDatagram}
	require.NoError(t, f.Begin(&largest, false))
	require.NotNil(t, f.datagram)
	k.track.SetMaxCacheDuration(0)
	require.NoError(t, f.Begin(&moqt.FetchObject{Location: loc(1, 7), Priority: 7, PayloadLength: 1}, false))
	require.NoError(t, f.Write([]byte("x")))
	f.Close()
	require.NoError(t, came{group: 3, objects: objects(0), fin: true}.arrive(k))
	require.Equal(t, "unknown 1.7-1.7", walk(t, k.track, moqt.Range{Start: loc(1, 7), End: loc(1, 7)}, time.Time{}))
	require.Empty(t, k.held(3))
}
