package fastpathtest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/media"
)

func TestJudge(t *testing.T) {
	kernel := media.Counters{Packets: 110, ForwarderPackets: 110}
	both := media.Counters{Packets: 110, ForwarderPackets: 105}
	again := media.Counters{Packets: 110, ForwarderPackets: 105, Retransmissions: 5}
	probe := media.Counters{Packets: 106, ForwarderPackets: 105, PTOs: 1}
	for name, tt := range map[string]struct {
		happened map[string]uint64
		media    media.Counters
		says     string // "": it is accepted
		more     []string
	}{
		"all by the kernel": {map[string]uint64{"copy_sent": 10, "packet_inactive": 1}, kernel, "", nil},
		"the window":        {map[string]uint64{"copy_window": 1, "copy_out_of_order": 4}, both, "", nil},
		"only late":         {map[string]uint64{"copy_no_slot": 5}, both, "", nil},
		"a frame again":     {map[string]uint64{"copy_sent": 10, "copy_out_of_order": 4}, kernel, "", nil},
		"sent again":        {map[string]uint64{"copy_sent": 5}, again, "", nil},
		"a probe":           {map[string]uint64{"copy_sent": 5}, probe, "", nil},
		"switched off":      {map[string]uint64{"copy_sent": 5, "frame_no_track": 5}, both, "for frame_no_track", nil},
		"checksums":         {map[string]uint64{"copy_sent": 5, "copy_checksum": 1}, both, "for copy_checksum", nil},
		"nothing":           {nil, media.Counters{Packets: 100, ForwarderPackets: 100}, "sends nothing", nil},
		"without reason":    {map[string]uint64{"copy_sent": 5, "copy_out_of_order": 5}, both, "sends 5 packets", nil},
		"header unseen":     {map[string]uint64{"copy_sent": 5, "frame_not_media": 5}, both, "sends 5 packets", nil},
		"header apart":      {map[string]uint64{"copy_sent": 5, "frame_not_media": 5}, both, "", []string{HeaderApart}},
	} {
		t.Run(name, func(t *testing.T) {
			before := Look{map[string]uint64{"copy_sent": 100}, media.Counters{Packets: 100, ForwarderPackets: 100}}
			after := Look{map[string]uint64{"copy_sent": 100}, tt.media}
			for reason, n := range tt.happened {
				after.Reasons[reason] += n
			}
			err := Judge(before, after, tt.more...)
			if tt.says == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.says)
		})
	}
}
