package interop

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/rtt/ipfix"
)

// aggregate is an aggregate of an interval: a prefix, and when the interval ended in Unix time, in ms.
type aggregate struct {
	prefix string
	end    int64
}

// figures are numbers of an aggregate, by the names that its JSON line and the elements of IPFIX have here.
type figures map[string]uint64

// ownElements are the enterprise-specific elements that are compared, by name.
var ownElements = map[string]int{
	"rttDeltaCount": 6, "rttMinimumNanoseconds": 7, "rttMedianNanoseconds": 8, "rttPercentile95Nanoseconds": 9,
	"rttMaximumNanoseconds": 10, "peerRttDeltaCount": 12, "peerRttMedianNanoseconds": 14,
	"tcpSentDeltaCount": 25, "tcpSentRetransmissionDeltaCount": 26, "ecnSentCapableDeltaCount": 27,
	"tcpReceivedDeltaCount": 29, "tcpReceivedRetransmissionDeltaCount": 30, "ecnReceivedCapableDeltaCount": 31,
}

// ianaElements are the counters of IANA and of RFC 5103 that are compared.
var ianaElements = []string{
	"packetDeltaCount", "octetDeltaCount", "reversePacketDeltaCount", "reverseOctetDeltaCount",
}

// replayToIPFIX sends the aggregates of a capture to a collector, and returns what the monitor writes of them as JSON.
func replayToIPFIX(t *testing.T, address string) map[aggregate]figures {
	var out bytes.Buffer
	start(t, nil, &out, "sluice-rtt", "--pcap", writeTraffic(t), "--all", "--rate-limit", "0", "--aggregate", "5",
		"--aggregate-parts", "--aggregate-subnets-v4", "16", "--format", "jsonl", "--ipfix", address,
	).wait(t, 2*time.Minute)
	want := aggregates(t, &out)
	require.Greater(t, len(want), 100)
	return want
}

// jsonTraffic is packets by whether and how RTTs can be measured.
type jsonTraffic map[string]struct{ Packets, Bytes uint64 }

func (j jsonTraffic) sum(kinds ...string) (packets, bytes uint64) {
	for _, kind := range kinds {
		packets, bytes = packets+j[kind].Packets, bytes+j[kind].Bytes
	}
	return packets, bytes
}

// aggregates reads JSON lines.
func aggregates(t *testing.T, lines io.Reader) map[aggregate]figures {
	all := make(map[aggregate]figures)
	for s := bufio.NewScanner(lines); s.Scan(); {
		var line struct {
			Timestamp  int64  `json:"timestamp"`
			Prefix     string `json:"ip_prefix"`
			Count      uint64 `json:"count_rtt"`
			Min        uint64 `json:"min_rtt"`
			Median     uint64 `json:"median_rtt"`
			P95        uint64 `json:"p95_rtt"`
			Max        uint64 `json:"max_rtt"`
			Congestion map[string]struct {
				Retransmissions uint64 `json:"retransmissions"`
				ECNCapable      uint64 `json:"ecn_capable"`
			} `json:"congestion"`
			Parts struct {
				Peers struct {
					Count  uint64 `json:"count_rtt"`
					Median uint64 `json:"median_rtt"`
				} `json:"peers"`
			} `json:"parts"`
			Sent     jsonTraffic `json:"rx_stats"`
			Received jsonTraffic `json:"tx_stats"`
		}
		require.NoError(t, json.Unmarshal(s.Bytes(), &line))
		if line.Prefix == "" {
			continue
		}
		f := figures{
			"rttDeltaCount": line.Count, "rttMinimumNanoseconds": line.Min, "rttMedianNanoseconds": line.Median,
			"rttPercentile95Nanoseconds": line.P95, "rttMaximumNanoseconds": line.Max,
			"peerRttDeltaCount": line.Parts.Peers.Count, "peerRttMedianNanoseconds": line.Parts.Peers.Median,
			"tcpSentRetransmissionDeltaCount":     line.Congestion["sent"].Retransmissions,
			"ecnSentCapableDeltaCount":            line.Congestion["sent"].ECNCapable,
			"tcpReceivedRetransmissionDeltaCount": line.Congestion["received"].Retransmissions,
			"ecnReceivedCapableDeltaCount":        line.Congestion["received"].ECNCapable,
		}
		f["packetDeltaCount"], f["octetDeltaCount"] = line.Sent.sum("TCP_TS", "TCP_noTS", "other")
		f["reversePacketDeltaCount"], f["reverseOctetDeltaCount"] = line.Received.sum("TCP_TS", "TCP_noTS", "other")
		f["tcpSentDeltaCount"], _ = line.Sent.sum("TCP_TS", "TCP_noTS")
		f["tcpReceivedDeltaCount"], _ = line.Received.sum("TCP_TS", "TCP_noTS")
		all[aggregate{line.Prefix, line.Timestamp / 1e6}] = f
	}
	return all
}

// installed returns the path of a program of the distribution, which make interop installs.
func installed(t *testing.T, name string) string {
	t.Helper()
	if os.Getenv("SLUICE_INTEROP") == "" {
		t.Skip("needs " + name + ": run make interop")
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	return path
}

// nfacctdConfig has pmacct's collector write one JSON object for each aggregate, every second. Placeholders are the
// port, the directory and the names of our elements.
const nfacctdConfig = `
daemonize: false
nfacctd_ip: 127.0.0.1
nfacctd_port: %d
nfacctd_net: netflow
timestamps_since_epoch: true
plugins: print
aggregate_primitives: %[2]s/primitives
aggregate: src_host, src_mask, timestamp_end, reversePacketDeltaCount, reverseOctetDeltaCount, %[3]s
print_output: json
print_output_file: %[2]s/records
print_output_file_append: true
print_refresh_time: 1
`

// TestNFAcctd sends aggregates to pmacct's collector. What it writes is what the monitor writes as JSON.
func TestNFAcctd(t *testing.T) {
	program := installed(t, "nfacctd")
	needsKernel(t)
	dir, port := t.TempDir(), freePort(t)
	var names []string
	primitives := "name=reverseOctetDeltaCount field_type=29305:1 len=8 semantics=u_int\n" +
		"name=reversePacketDeltaCount field_type=29305:2 len=8 semantics=u_int\n"
	for name, id := range ownElements {
		names = append(names, name)
		primitives += fmt.Sprintf("name=%s field_type=%d:%d len=8 semantics=u_int\n", name, ipfix.Enterprise, id)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	write("primitives", primitives)
	collector := start(t, nil, nil, program, "-f",
		write("nfacctd.conf", fmt.Sprintf(nfacctdConfig, port, dir, strings.Join(names, ", "))))
	require.Eventually(t, func() bool { return strings.Contains(collector.output.String(), "waiting for NetFlow") },
		time.Minute, 50*time.Millisecond, "the collector does not start")

	want := replayToIPFIX(t, fmt.Sprintf("127.0.0.1:%d", port))
	var records []byte
	require.Eventually(t, func() bool {
		records, _ = os.ReadFile(filepath.Join(dir, "records"))
		return bytes.Count(records, []byte("\n")) >= len(want)
	}, time.Minute, time.Second, "the collector does not write all records")
	requireFigures(t, want, nfacctdRecords(t, string(records)))
}

// requireFigures compares all figures of all aggregates.
func requireFigures(t *testing.T, want, got map[aggregate]figures) {
	t.Helper()
	require.Len(t, got, len(want))
	for key, f := range want {
		require.Equal(t, f, got[key], "%v", key)
	}
}

// nfacctdRecords reads what nfacctd has written. It writes names of elements in lower case.
func nfacctdRecords(t *testing.T, text string) map[aggregate]figures {
	all := make(map[aggregate]figures)
	for line := range strings.Lines(text) {
		var r map[string]any
		d := json.NewDecoder(strings.NewReader(line))
		d.UseNumber()
		require.NoError(t, d.Decode(&r), line)
		f := figures{"packetDeltaCount": whole(t, r["packets"]), "octetDeltaCount": whole(t, r["bytes"])}
		for name := range ownElements {
			f[name] = whole(t, r[strings.ToLower(name)])
		}
		for _, name := range []string{"reversePacketDeltaCount", "reverseOctetDeltaCount"} {
			f[name] = whole(t, r[strings.ToLower(name)])
		}
		key := aggregate{fmt.Sprintf("%v/%v", r["ip_src"], r["mask_src"]), milliseconds1970(t, r["timestamp_end"])}
		require.NotContains(t, all, key)
		all[key] = f
	}
	return all
}

// whole returns a number that JSON has as a number or as a text.
func whole(t *testing.T, value any) uint64 {
	n, err := strconv.ParseUint(fmt.Sprint(value), 10, 64)
	require.NoError(t, err)
	return n
}

// milliseconds1970 reads a Unix time in seconds.
func milliseconds1970(t *testing.T, value any) int64 {
	seconds, err := strconv.ParseFloat(fmt.Sprint(value), 64)
	require.NoError(t, err)
	return int64(seconds*1000 + 0.5)
}

// TestIPFIXDump has libfixbuf's ipfixDump read the messages: it knows our elements by what the messages say of them.
func TestIPFIXDump(t *testing.T) {
	program := installed(t, "ipfixDump")
	needsKernel(t)
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, conn.(*net.UDPConn).SetReadBuffer(16<<20))
	messages := make(chan []byte, 1)
	go func() {
		var all []byte
		for b := make([]byte, 1<<16); ; {
			n, _, err := conn.ReadFrom(b)
			if err != nil || n == 0 {
				messages <- all
				return
			}
			all = append(all, b[:n]...)
		}
	}()
	want := replayToIPFIX(t, conn.LocalAddr().String())
	end, err := net.Dial("udp", conn.LocalAddr().String())
	require.NoError(t, err)
	_, err = end.Write(nil) // after all messages
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "messages")
	require.NoError(t, os.WriteFile(file, <-messages, 0o600))
	require.NoError(t, errors.Join(conn.Close(), end.Close()))
	text, err := exec.Command(program, "--in", file, "--rfc5610", "--data").Output()
	require.NoError(t, err)
	requireFigures(t, want, dumped(t, string(text)))
}

// Lines of ipfixDump: an element with its value, as "(29305/1)   reverseOctetDeltaCount : 7", and the head of a record.
var (
	dumpedElement = regexp.MustCompile(`(?m)^\t\((?:\d+/)?\d+\)(?: \(S\))? *(\w+) : (.*)$`)
	dumpedRecord  = regexp.MustCompile(`(?m)^--- data record \d+ ---$`)
)

// dumped reads what ipfixDump prints.
func dumped(t *testing.T, text string) map[aggregate]figures {
	all := make(map[aggregate]figures)
	for _, record := range dumpedRecord.Split(text, -1)[1:] {
		values := make(map[string]string)
		for _, m := range dumpedElement.FindAllStringSubmatch(record, -1) {
			values[m[1]] = m[2]
		}
		if _, describes := values["informationElementId"]; describes {
			continue
		}
		end, err := time.Parse("2006-01-02 15:04:05.000", values["flowEndMilliseconds"])
		require.NoError(t, err)
		prefix, err := netip.ParsePrefix(values["sourceIPv4Prefix"] + "/" + values["sourceIPv4PrefixLength"])
		if values["ipVersion"] == "6" {
			prefix, err = netip.ParsePrefix(values["sourceIPv6Prefix"] + "/" + values["sourceIPv6PrefixLength"])
		}
		require.NoError(t, err)
		f := make(figures)
		for _, name := range slices.Concat(slices.Collect(maps.Keys(ownElements)), ianaElements) {
			f[name] = whole(t, values[name])
		}
		key := aggregate{prefix.String(), end.UnixMilli()}
		require.NotContains(t, all, key)
		all[key] = f
	}
	return all
}
