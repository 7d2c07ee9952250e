package rendition

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// starts are the arrivals in the first three seconds of the best rendition of 'sluice-lab replay --rendition client
// --policy bytes --congestion cubic --join', by the rate of the path in kbit/s and its RTT. The web page's test has the
// same file.
type starts struct {
	Path     string   `json:"path"`
	RTT      int      `json:"rtt"`      // ms
	Chosen   int      `json:"chosen"`   // the first rendition after the best one
	Arrivals [][4]int `json:"arrivals"` // when it came, its media time, how long it took (ms), and bytes
}

func TestStart(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/start.json")
	require.NoError(t, err)
	var all []starts
	require.NoError(t, json.Unmarshal(data, &all))
	require.NotEmpty(t, all)
	for _, s := range all {
		require.Equal(t, s.Chosen, s.firstChoice(), s.Path)
	}
}

// firstChoice returns the first rendition that is chosen in place of the best one.
func (s *starts) firstChoice() int {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	m := new(Meter)
	c := NewChooser(m, []Rendition{{Bitrate: 400_000}, {Bitrate: 1_000_000}, {Bitrate: 2_000_000}}, 2)
	arrivals := s.Arrivals
	for at := Interval; at <= 3*time.Second && c.Current() == 2; at += Interval {
		for ; len(arrivals) > 0 && ms(arrivals[0][0]) <= at; arrivals = arrivals[1:] {
			a := arrivals[0]
			m.Arrived(start.Add(ms(a[0])), ms(a[1]), a[3], ms(a[2]))
			c.Began(start.Add(ms(a[0])), 2)
		}
		c.Choose(start.Add(at), ms(s.RTT))
	}
	return c.Current()
}
