package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/internal/rtt/report/reporttest"
)

func TestFormats(t *testing.T) {
	const ends = `"src_ip":"10.11.1.1","src_port":5201,"dest_ip":"10.11.1.2","dest_port":59528,"protocol":`
	for name, test := range map[string]struct {
		format Format
		write  func(*Writer) error
		want   string
	}{
		"standard RTT": {Standard, func(w *Writer) error { return w.Sample(reporttest.TCP()) },
			"16:00:46.147705205 5.425439 ms 0.046452 ms TCP 10.11.1.1:5201+10.11.1.2:59528\n"},
		"standard DNS": {Standard, func(w *Writer) error { return w.Sample(reporttest.DNS()) },
			"16:00:46.147705205 12 ms 12 ms DNS 2001:db8::53:53+2001:db8::1:40000 on eth1 vlan 7 HTTPS NXDOMAIN truncated ambiguous\n"},
		"standard QUIC": {Standard, func(w *Writer) error { return w.Sample(reporttest.QUIC()) },
			"16:00:46.147705205 30 ms 30 ms QUIC 10.11.1.1:5201+10.11.1.2:59528 spin near 10.0005 ms far 20 ms\n"},
		"standard opening": {Standard, func(w *Writer) error { return w.Flow(reporttest.Opening()) },
			"16:00:46.147705205 TCP 10.11.1.1:5201+10.11.1.2:59528 opening due to SYN-ACK from dest\n"},
		"standard closing": {Standard, func(w *Writer) error { return w.Flow(reporttest.Closing()) },
			"16:00:46.147705205 TCP 10.11.1.1:5201+10.11.1.2:59528 closing due to flow timeout from garbage collection\n"},
		"jsonl RTT": {JSONL, func(w *Writer) error { return w.Sample(reporttest.TCP()) },
			`{"timestamp":1782921646147705205,` + ends + `"TCP","rtt":5425439,"min_rtt":46452,"sent_packets":2,"sent_bytes":7277,` +
				`"rec_packets":2,"rec_bytes":0,"match_on_egress":false,"method":"timestamp"}` + "\n"},
		"jsonl DNS": {JSONL, func(w *Writer) error { return w.Sample(reporttest.DNS()) },
			`{"timestamp":1782921646147705205,"src_ip":"2001:db8::53","src_port":53,"dest_ip":"2001:db8::1","dest_port":40000,"protocol":"DNS",` +
				`"rtt":12000000,"min_rtt":12000000,"sent_packets":2,"sent_bytes":80,"rec_packets":1,"rec_bytes":120,"match_on_egress":true,` +
				`"method":"query","query_type":"HTTPS","rcode":"NXDOMAIN","truncated":true,"ambiguous":true,"interface":"eth1","vlan":7}` + "\n"},
		"jsonl QUIC": {JSONL, func(w *Writer) error { return w.Sample(reporttest.QUIC()) },
			`{"timestamp":1782921646147705205,` + ends + `"QUIC","rtt":30000000,"min_rtt":30000000,"sent_packets":0,"sent_bytes":0,` +
				`"rec_packets":0,"rec_bytes":0,"match_on_egress":false,"method":"spin","near_rtt":10000500,"far_rtt":20000000}` + "\n"},
		"jsonl flow": {JSONL, func(w *Writer) error { return w.Flow(reporttest.Opening()) },
			`{"timestamp":1782921646147705205,` + ends + `"TCP","flow_event":"opening","reason":"SYN-ACK","triggered_by":"dest"}` + "\n"},
		"json": {JSON, func(w *Writer) error { return errors.Join(w.Flow(reporttest.Opening()), w.Flow(reporttest.Closing())) },
			"[\n" + `{"timestamp":1782921646147705205,` + ends + `"TCP","flow_event":"opening","reason":"SYN-ACK","triggered_by":"dest"},` + "\n" +
				`{"timestamp":1782921646147705205,` + ends + `"TCP","flow_event":"closing","reason":"flow timeout","triggered_by":"garbage collection"}` + "\n]\n"},
		"json of nothing": {JSON, func(*Writer) error { return nil }, "[\n\n]\n"},
		"ppviz": {PPViz, func(w *Writer) error { return errors.Join(w.Sample(reporttest.TCP()), w.Flow(reporttest.Opening())) },
			"1782921646.147705205 0.005425439 0.000046452 10.11.1.1:5201+10.11.1.2:59528\n"},
		"standard aggregate": {Standard, func(w *Writer) error { return w.Interval(reporttest.Interval()) },
			"Aggregating RTTs in histograms with 250 4 ms wide bins every 2 seconds\n" +
				"16:00:46.147705205: 10.99.1.0/24 -> rxpkts=3, rxbytes=300, txpkts=5, txbytes=80, rtt-count=4, min=2 ms, mean=6.5 ms, median=6 ms, p95=12.8 ms, max=13 ms\n" +
				"16:00:46.147705205: ::/0 -> rxpkts=0, rxbytes=0, txpkts=1, txbytes=60\n" +
				"16:00:46.147705205: TCP=(pkts=8, bytes=380), ICMP=(pkts=1, bytes=60), ECN=(Not-ECT=8, CE=1), errors=(create-flow-state=2)\n"},
		"jsonl aggregate": {JSONL, func(w *Writer) error { return w.Interval(reporttest.Interval()) },
			`{"timestamp":1782921644147705205,"bins":250,"bin_width_ns":4000000,"aggregation_interval_ns":2000000000,"timeout_interval_ns":30000000000,"ipv4_prefix_len":24,"ipv6_prefix_len":48}` + "\n" +
				`{"timestamp":1782921646147705205,"ip_prefix":"10.99.1.0/24","rx_stats":{"TCP_TS":{"packets":3,"bytes":300}},"tx_stats":{"TCP_TS":{"packets":4,"bytes":70},"TCP_noTS":{"packets":1,"bytes":10}},` +
				`"count_rtt":4,"min_rtt":2000000,"mean_rtt":6500000,"median_rtt":6000000,"p95_rtt":12800000,"max_rtt":13000000,"histogram":[1,2,0,1],"retransmissions":1}` + "\n" +
				`{"timestamp":1782921646147705205,"ip_prefix":"::/0","rx_stats":{},"tx_stats":{"other":{"packets":1,"bytes":60}}}` + "\n" +
				`{"timestamp":1782921646147705205,"protocol_counters":{"ICMP":{"packets":1,"bytes":60},"TCP":{"packets":8,"bytes":380}},"ecn_counters":{"CE":1,"no_ECT":8},"errors":{"create_flow_state":2}}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			w, err := New(test.format, func() (io.WriteCloser, error) { return closed{&out}, nil })
			require.NoError(t, err)
			require.NoError(t, test.write(w))
			require.NoError(t, w.Close())
			require.Equal(t, test.want, out.String())
			if test.format == JSON {
				require.True(t, json.Valid(out.Bytes()))
			}
		})
	}
}

type closed struct{ io.Writer }

func (closed) Close() error { return nil }

func TestWriterRefuses(t *testing.T) {
	_, err := New("xml", nil)
	require.EqualError(t, err, `--format: "xml": must be standard, json, jsonl or ppviz`)
	_, err = New(JSON, func() (io.WriteCloser, error) { return nil, os.ErrPermission })
	require.ErrorIs(t, err, os.ErrPermission)
	w, err := New(PPViz, func() (io.WriteCloser, error) { return closed{io.Discard}, nil })
	require.NoError(t, err)
	require.EqualError(t, w.Interval(reporttest.Interval()), "--format: ppviz has no aggregates: must be standard, json or jsonl")
}

// A file that was moved away is opened anew, and each file is complete.
func TestWriterReopens(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "rtt.json")
	w, err := New(JSON, func() (io.WriteCloser, error) {
		return os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	})
	require.NoError(t, err)
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.NoError(t, os.Rename(name, name+".1"))
	w.Reopen()
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.NoError(t, w.Flush())
	require.NoError(t, w.Flow(reporttest.Opening()))
	require.NoError(t, w.Close())
	for file, records := range map[string]int{name + ".1": 2, name: 1} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var list []map[string]any
		require.NoError(t, json.Unmarshal(text, &list), "%s", text)
		require.Len(t, list, records)
	}
}

// What went wrong is told once.
func TestWriterFails(t *testing.T) {
	left := 1
	w, err := New(JSONL, func() (io.WriteCloser, error) {
		if left--; left < 0 {
			return nil, os.ErrPermission
		}
		return closed{io.Discard}, nil
	})
	require.NoError(t, err)
	w.Reopen()
	require.ErrorIs(t, w.Flush(), os.ErrPermission)
	require.NoError(t, w.Close())

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("needs /dev/full")
	}
	require.NoError(t, err)
	w, err = New(JSON, func() (io.WriteCloser, error) { return full, nil })
	require.NoError(t, err)
	require.NoError(t, w.Sample(reporttest.TCP()))
	require.ErrorContains(t, w.Flush(), "no space left on device")
	require.NoError(t, w.Close())
}

func TestAppendUnit(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", 1: "0.000001", 10: "0.00001", 999999: "0.999999", 1000000: "1", 1500000: "1.5", 123456789: "123.456789", time.Hour: "3600000",
	} {
		require.Equal(t, want, string(appendUnit(nil, d, time.Millisecond)))
	}
}
