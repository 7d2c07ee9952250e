package sub

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/player/catalog"
	"sluice/player/client/clienttest"
	"sluice/player/pub"
)

// catalogs changes the catalogs that a publisher sends, and counts them.
type catalogs struct {
	change func(number int, c *catalog.Catalog)

	mu    sync.Mutex
	count int
}

func (c *catalogs) tamper(track moqt.FullTrackName, h moqt.SubgroupHeader, stream io.Reader) io.Reader {
	if track.Name != catalog.MSFName {
		return stream
	}
	content, err := io.ReadAll(stream)
	if err != nil {
		panic(err)
	}
	now, err := catalog.Parse(content[bytes.IndexByte(content, '{'):])
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	c.count++
	c.change(c.count, &now)
	c.mu.Unlock()
	if content, err = now.MSF(); err != nil {
		panic(err)
	}
	e := moqt.NewSubgroupEncoder(moqt.DataLayout1, h)
	b, err := e.AppendObject(nil, moqt.ObjectHeader{PayloadLength: uint64(len(content))})
	if err != nil {
		panic(err)
	}
	return bytes.NewReader(append(b, content...))
}

// In its next session, a player goes on with a rendition that only a later catalog has, if the relay chooses it or the
// catalog has lost its present one.
func TestPlayFollowsRenditions(t *testing.T) {
	const high, low = "1.m4s", "3.m4s"
	only := func(name string) func(*catalog.Catalog) {
		return func(c *catalog.Catalog) {
			c.Tracks = slices.DeleteFunc(c.Tracks, func(t catalog.TrackEntry) bool {
				return t.Role == "video" && t.Name != name
			})
		}
	}
	for name, tt := range map[string]struct {
		first, later func(*catalog.Catalog)
		serves       func(string, uint64) bool
		widths       []int
	}{
		"that is new": {
			only(high), func(*catalog.Catalog) {}, func(track string, _ uint64) bool { return track == low },
			[]int{640, 160},
		},
		"that is not there any more": {func(*catalog.Catalog) {}, only(low), nil, []int{640, 160}},
		"of which none is left":      {only(high), only(low), nil, []int{640}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &catalogs{change: func(number int, c *catalog.Catalog) {
					for i := range c.Tracks {
						c.Tracks[i].Layers = ""
					}
					if number == 1 {
						tt.first(c)
					} else {
						tt.later(c)
					}
				}}
				r := &clienttest.Relay{
					Serves: tt.serves, Tamper: c.tamper,
					Refuse: map[moqt.MessageType]*moqt.RequestError{ // it would bring catalogs that are not changed
						moqt.MessageFetch: {Code: moqt.RequestNotSupported},
					},
				}
				publish(t, r, pub.PublisherConfig{
					Wait: true, Loop: true, Renditions: []func() (io.ReadCloser, error){lowRendition},
				})
				time.AfterFunc(7*time.Second, func() { r.Close(moqt.SessionInternalError, "the relay crashed") })
				out, _ := play(t, r, PlayerConfig{Catalogs: []string{catalog.MSFName}, Duration: 16 * time.Second})
				widths, _ := pieces(t, out)
				require.Equal(t, tt.widths, widths)
			})
		})
	}
}

// An incomprehensible catalog, or an update of the one before, changes nothing.
func TestPlayIgnoresOtherCatalogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen atomic.Int32
		r := &clienttest.Relay{Tamper: func(track moqt.FullTrackName, _ moqt.SubgroupHeader, s io.Reader) io.Reader {
			if track.Name != catalog.MSFName || seen.Add(1) == 1 {
				return s
			}
			return bytes.NewReader([]byte{0, 2, '[', ']'})
		}}
		publish(t, r, pub.PublisherConfig{Wait: true})
		_, result := play(t, r, PlayerConfig{Catalogs: []string{catalog.MSFName}})
		require.Equal(t, uint64(720), result.Objects())
	})
}
