package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/media"
	"sluice/relay"
	"sluice/server"
)

func TestStatusTable(t *testing.T) {
	ended := time.Now()
	st := server.Status{
		FastPath: map[string]uint64{
			"packet_opened": 1000, "copy_sent": 900, "packet_forged": 0, "job_given": 40, "job_busy": 3, "job_late": 1,
		},
		Sessions: []relay.SessionStatus{
			{
				Remote: "192.0.2.1:1000", Transport: "quic", CipherSuite: chacha20,
				FastPath: true, Publications: 4, Threshold: media.LowestPriority,
			},
			{
				Remote: "[2001:db8::1]:5000", Transport: "webtransport", CipherSuite: chacha20,
				FastPath: true, Subscriptions: 2, OnFastPath: 1,
				Packets: relay.SentPackets{Kernel: 900, Process: 30, Lost: 2},
				SRTT:    1500 * time.Microsecond, Window: 15000, Threshold: 128<<8 | 32,
				Declined: map[string]uint64{
					"window": 5, "out_of_order": 12, "not_open": 5, "filtered": 2, "priority": 1,
				},
				Held:    map[string]uint64{"blocked_window": 7},
				Streams: map[string]uint64{"delivered": 3, "dropped": 1},
				Renditions: []relay.RenditionStatus{
					{Track: "live--720p", Renditions: 3, Switches: 2, Reason: "late"}, {Set: 1, Renditions: 1},
				},
			},
			{
				Remote: "192.0.2.2:1000", Transport: "quic", CipherSuite: "TLS_AES_128_GCM_SHA256",
				Subscriptions: 1, Threshold: media.LowestPriority, BucketRate: 97_000, Upstream: "moqt://a.example",
			},
			{Remote: "192.0.2.3:1000", Transport: "quic", Ended: &ended, Threshold: media.LowestPriority},
		},
		Upstreams: []server.UpstreamStatus{
			{URL: "moqt://a.example", Connected: true}, {URL: "moqt://b.example", Error: "no answer"},
			{URL: "moqt://c.example"},
		},
		Draining: []server.DrainingProcess{{PID: 77, Sessions: 3}},
		Policy:   "mine.o",
		Sockets:  []server.SocketArrivals{{SameCPU: 70, OtherCPU: 7}, {OtherCPU: 3}},
	}
	const table = "" +
		"PEER                OVER          TRACKS  KERNEL  PROCESS  LOST  RTT     WINDOW   DROPS           " +
		"FAST PATH\n" +
		"192.0.2.1:1000      quic          4 in    0       0        0     -       0 B      -               -\n" +
		"[2001:db8::1]:5000  webtransport  2 out   900     30       2     1.5 ms  15.0 kB  over 128/32     1 of 2\n" +
		"192.0.2.2:1000      quic          1 out   0       0        0     -       0 B      over 97.0 kB/s  " +
		"no, AES_128_GCM_SHA256\n"
	require.Equal(t, table+`[2001:db8::1]:5000, left to the process: 12 out_of_order, 5 not_open, 5 window, 3 others
[2001:db8::1]:5000, rendition: live--720p, one of 3, switches: 2, the last one: late
[2001:db8::1]:5000, rendition: none yet, one of 1
upstream relay moqt://a.example: connected, tracks from there: 0, to there: 1
upstream relay moqt://b.example: not connected: no answer
upstream relay moqt://c.example: not connected
process 77 was replaced and drains; sessions that it still has: 3
ended within the last minute: 1 (--verbose shows them)
policy: mine.o, by which the kernel declined 0 copies
jobs given to workers: 40; left to the process: 3 busy, 1 late
`, string((&statusReport{st, false}).text()))
	require.Equal(t, table+
		"192.0.2.3:1000      quic          -       0       0        0     -       0 B      -               ended\n"+
		`[2001:db8::1]:5000, left to the process: 12 out_of_order, 5 not_open, 5 window, 2 filtered, 1 priority
[2001:db8::1]:5000, held by the process: 7 blocked_window
[2001:db8::1]:5000, streams ended: 3 delivered, 1 dropped
[2001:db8::1]:5000, rendition: live--720p, one of 3, switches: 2, the last one: late
[2001:db8::1]:5000, rendition: none yet, one of 1
upstream relay moqt://a.example: connected, tracks from there: 0, to there: 1
upstream relay moqt://b.example: not connected: no answer
upstream relay moqt://c.example: not connected
process 77 was replaced and drains; sessions that it still has: 3
policy: mine.o, by which the kernel declined 0 copies
jobs given to workers: 40; left to the process: 3 busy, 1 late
datagrams to socket 0: 70 on the CPU of its reader, 7 on another
datagrams to socket 1: 0 on the CPU of its reader, 3 on another
the kernel, in all:
  1000 packet_opened
  900 copy_sent
  40 job_given
  3 job_busy
  1 job_late
`, string((&statusReport{st, true}).text()))
	var without bytes.Buffer
	new(statusReport).explainJobs(&without)
	require.Empty(t, without.String())
	both := relay.SessionStatus{Threshold: 128<<8 | 32, BucketRate: 97_000}
	require.Equal(t, "over 128/32, over 97.0 kB/s", dropsText(&both))
	require.Equal(t, "off", new(statusReport).fastPathText(&st.Sessions[0]))
	require.Equal(t, "no place", (&statusReport{st, true}).fastPathText(&relay.SessionStatus{CipherSuite: chacha20}))
}

// TestStatusOfGuests shows clients of other protocols in a table of their own.
func TestStatusOfGuests(t *testing.T) {
	st := server.Status{Guests: []relay.GuestStatus{
		{
			Remote: "192.0.2.1:554", Protocol: "rtsp", Carrier: "udp", Publishes: true, Namespace: "live-camera",
			Received: 1_200_000,
		},
		{Remote: "192.0.2.2:1000", Protocol: "rtsp", Namespace: "live-camera", Sent: 900, Dropped: 3},
	}}
	text := string((&statusReport{Status: st}).text())
	require.Contains(t, text, ""+
		"\nGUEST           PROTOCOL  MEDIA BY  DOES       BROADCAST    RECEIVED  SENT   DROPPED\n"+
		"192.0.2.1:554   rtsp      udp       publishes  live-camera  1.2 MB    0 B    0\n"+
		"192.0.2.2:1000  rtsp      -         plays      live-camera  0 B       900 B  3\n")
}
