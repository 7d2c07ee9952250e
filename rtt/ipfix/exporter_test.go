package ipfix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"sluice/rtt/groups"
	"sluice/rtt/report"
	"sluice/rtt/report/reporttest"
)

// collector receives messages by UDP, and reads them as RFC 7011 says. It knows no element but from templates.
type collector struct {
	t         *testing.T
	conn      net.PacketConn
	templates map[uint16][]string // elements as ENTERPRISE/ID:LENGTH
	next      uint32              // sequence number
	left      uint32              // when the last message left, in Unix time
	messages  int
}

func newCollector(t *testing.T) *collector {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.(*net.UDPConn).SetReadBuffer(4<<20))
	return &collector{t: t, conn: conn, left: uint32(time.Now().Unix()), templates: make(map[uint16][]string)}
}

func (c *collector) exporter(cfg Config) *Exporter {
	cfg.Address, cfg.Logger = c.conn.LocalAddr().String(), slog.New(slog.DiscardHandler)
	e, err := New(cfg)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { e.Close() })
	return e
}

// reader takes bytes from a message.
type reader struct {
	t *testing.T
	b []byte
}

func (r *reader) bytes(n int) []byte {
	require.LessOrEqual(r.t, n, len(r.b))
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) uint16() uint16 { return binary.BigEndian.Uint16(r.bytes(2)) }
func (r *reader) uint32() uint32 { return binary.BigEndian.Uint32(r.bytes(4)) }

// data is a data record: the values by element.
type data struct {
	set    uint16
	values map[string][]byte
}

func (d data) number(element string) (n uint64) {
	for _, b := range d.values[element] {
		n = n<<8 | uint64(b)
	}
	return n
}

// read returns the records of the next messages, until there are so many besides those that describe elements, and
// those.
func (c *collector) read(want int) (records, described []data) {
	for len(records) < want {
		b := make([]byte, 1<<16)
		n, _, err := c.conn.ReadFrom(b)
		require.NoError(c.t, err)
		require.LessOrEqual(c.t, n, maxMessage)
		for _, d := range c.message(b[:n]) {
			if d.set == setElements {
				described = append(described, d)
			} else {
				records = append(records, d)
			}
		}
	}
	return records, described
}

func (c *collector) message(b []byte) (all []data) {
	c.messages++
	r := &reader{c.t, b}
	require.EqualValues(c.t, 10, r.uint16())
	require.EqualValues(c.t, len(b), r.uint16())
	left := r.uint32()
	require.GreaterOrEqual(c.t, left, c.left, "messages leave one after the other, after the collector has begun")
	require.LessOrEqual(c.t, int64(left), time.Now().Unix())
	c.left = left
	require.Equal(c.t, c.next, r.uint32())
	require.Zero(c.t, r.uint32())
	for len(r.b) > 0 {
		id := r.uint16()
		set := &reader{c.t, r.bytes(int(r.uint16()) - 4)}
		require.NotEmpty(c.t, set.b)
		switch id {
		case 2, 3:
			c.readTemplates(set, id == 3)
		default:
			require.Contains(c.t, c.templates, id)
			for len(set.b) > 0 {
				all = append(all, c.record(set, id))
			}
		}
	}
	c.next += uint32(len(all))
	return all
}

func (c *collector) readTemplates(set *reader, options bool) {
	for len(set.b) > 0 {
		id, count := set.uint16(), int(set.uint16())
		if options {
			require.EqualValues(c.t, 2, set.uint16(), "scope")
		}
		var elements []string
		for range count {
			element, length, enterprise := set.uint16(), set.uint16(), uint32(0)
			if element&0x8000 != 0 {
				enterprise = set.uint32()
			}
			elements = append(elements, fmt.Sprintf("%d/%d:%d", enterprise, element&0x7fff, length))
		}
		c.templates[id] = elements
	}
}

func (c *collector) record(set *reader, id uint16) data {
	d := data{id, make(map[string][]byte)}
	for _, element := range c.templates[id] {
		name, text, _ := strings.Cut(element, ":")
		var length int
		fmt.Sscan(text, &length)
		if length == math.MaxUint16 {
			length = int(set.bytes(1)[0])
			require.Less(c.t, length, 255)
		}
		d.values[name] = set.bytes(length)
	}
	return d
}

// TestRecords reads the records sent, and their descriptions.
func TestRecords(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Interval()
	require.NoError(t, c.exporter(Config{}).Interval(i))
	records, described := c.read(2)
	r, p := records[0], &i.Prefixes[0]
	for element, want := range map[string]uint64{
		"0/152": uint64(i.Start.UnixMilli()), "0/153": uint64(i.End.UnixMilli()),
		"0/60": 4, "0/44": 10<<24 | 99<<16 | 1<<8, "0/9": 24,
		"0/1": 80, "0/2": 5, "29305/1": 300, "29305/2": 3,
		"32473/6": 4, "32473/7": 2e6,
		"32473/8": uint64(p.RTT.Quantile(0.5)), "32473/9": uint64(p.RTT.Quantile(0.95)), "32473/10": 13e6,
		"32473/11": 26e6, "32473/18": 128, "32473/19": 126, "32473/20": 4, "32473/21": 0,
		"32473/25": 5, "32473/26": 1, "32473/27": 4, "32473/28": 1, // sent
		"32473/29": 3, "32473/30": 0, "32473/31": 2, "32473/32": 1,
	} {
		require.Contains(t, r.values, element)
		require.Equal(t, want, r.number(element), element)
	}
	require.Len(t, r.values, 29)
	require.Len(t, records[1].values["0/170"], 16, "::/0")
	require.EqualValues(t, 6, records[1].number("0/60"))
	require.EqualValues(t, 60, records[1].number("0/1"))
	require.Zero(t, records[1].number("32473/8"), "no RTTs")

	require.Len(t, described, len(descriptions()))
	names := make(map[uint64]string)
	for _, d := range described {
		require.EqualValues(t, Enterprise, d.number("0/346"))
		names[d.number("0/303")] = fmt.Sprintf("%s %d %d %d", d.values["0/341"], d.number("0/339"), d.number("0/344"),
			d.number("0/345"))
	}
	require.Equal(t, "prefixGroup 13 0 0", names[1])
	require.Equal(t, "rttPercentile95Nanoseconds 4 1 8", names[9])
	require.Equal(t, "peerRttSumNanoseconds 4 3 8", names[17])
	require.Equal(t, "tcpSentDeltaCount 4 3 3", names[25])
	require.Equal(t, "ecnReceivedMarkedDeltaCount 4 3 3", names[32])
	require.Equal(t, "oneDirectionRttSumNanoseconds 4 3 8", names[38])
	for element := range r.values {
		if own, ok := strings.CutPrefix(element, "32473/"); ok {
			id, err := strconv.ParseUint(own, 10, 16)
			require.NoError(t, err)
			require.Contains(t, names, id, "each has a description")
		}
	}
	last := described[len(described)-1]
	require.Equal(t, "sum of the RTTs in oneDirectionRttDeltaCount", string(last.values["0/340"]))
	require.EqualValues(t, 0, last.number("0/342"))
	require.EqualValues(t, uint64(math.MaxUint64), last.number("0/343"))
	require.Zero(t, described[0].number("0/343"), "a text has no range")
}

// TestKeys has all that tells aggregates apart, groups, the other part of the path, and the whole path.
func TestKeys(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Parts()
	grouped := i.Prefixes[0]
	grouped.Prefix, grouped.Group, grouped.Protocol = netip.Prefix{}, strings.Repeat("ä", groups.MaxName/2), "other"
	unplaced := grouped // as without room
	unplaced.Prefix, unplaced.Group, unplaced.Protocol = netip.MustParsePrefix("0.0.0.0/0"), "", ""
	i.Prefixes = append(i.Prefixes, grouped, unplaced)
	require.NoError(t, c.exporter(Config{Enterprise: 9}).Interval(i))
	records, _ := c.read(3)
	r := records[0]
	require.Equal(t, "192.0.2.0/24", string(r.values["9/2"]))
	require.EqualValues(t, 100, r.number("0/243"))
	require.EqualValues(t, 7, r.number("0/245"))
	require.Equal(t, "eth1", string(r.values["0/82"]))
	require.EqualValues(t, 6, r.number("0/4"))
	require.EqualValues(t, 2, r.number("9/6"))
	require.EqualValues(t, 1, r.number("9/12"))
	require.EqualValues(t, 5e6, r.number("9/17"))
	require.EqualValues(t, 1, r.number("9/33"))
	require.EqualValues(t, 5e6, r.number("9/38"))
	require.Equal(t, strings.Repeat("ä", groups.MaxName/2), string(records[1].values["9/1"]))
	require.EqualValues(t, 255, records[1].number("0/4"))
	require.EqualValues(t, 255, records[2].number("0/4"))
}

// TestLargeNumbers has more packets than 32 bits count: shares of two numbers stay.
func TestLargeNumbers(t *testing.T) {
	c := newCollector(t)
	i := reporttest.Interval()
	p := &i.Prefixes[0]
	p.Sent.TCPPlain.Packets, p.Sent.Retransmissions = 1<<34, 1<<33
	p.Sent.QUIC = report.Loss{All: 1 << 35, Passed: 1 << 34, Reported: 1 << 33}
	p.Received.QUIC = report.Loss{All: 1 << 36, Passed: 1 << 35, Reported: 1 << 34}
	require.NoError(t, c.exporter(Config{}).Interval(i))
	records, _ := c.read(2)
	for element, want := range map[string]uint64{
		"25": p.Sent.TCPSegments(), "26": 1 << 33, "18": 1 << 35, "19": 1 << 34, "20": 1 << 33, "21": 1 << 36,
		"22": 1 << 35, "23": 1 << 34,
	} {
		require.Equal(t, want, records[0].number("32473/"+element), element)
	}
}

// TestManyMessages follows the sequence numbers through several messages, and intervals.
func TestManyMessages(t *testing.T) {
	c := newCollector(t)
	e := c.exporter(Config{})
	i := reporttest.Interval()
	i.Prefixes = nil
	for n := range 100 {
		i.Prefixes = append(i.Prefixes, report.Prefix{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(n), 0}), 24),
		})
	}
	for range 2 {
		require.NoError(t, e.Interval(i))
		records, _ := c.read(len(i.Prefixes))
		for n := range records {
			require.Equal(t, []byte{10, 0, byte(n), 0}, records[n].values["0/44"])
		}
	}
	require.Greater(t, c.messages, 10)
	var sent dto.Metric
	require.NoError(t, e.WithLabelValues("sent").Write(&sent))
	require.EqualValues(t, c.messages, sent.GetCounter().GetValue())
}

// TestBytes pins a message, with the bytes that RFC 7011 §3 says.
func TestBytes(t *testing.T) {
	w := &writer{records: 5}
	w.begin()
	w.template(300, []field{{id: 8, length: 4}, {id: 3, length: variable, enterprise: 9}}, 0)
	w.record(300, []byte{192, 0, 2, 1, 1, 'x'})
	w.record(300, []byte{192, 0, 2, 2, 0})
	w.record(300, make([]byte, maxMessage-40)) // there is no room for it
	require.Len(t, w.messages, 1)
	b := w.messages[0]
	require.Equal(t, []byte{
		0, 10, 0, 51, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0,
		0, 2, 0, 20, 1, 44, 0, 2, 0, 8, 0, 4, 0x80, 3, 0xff, 0xff, 0, 0, 0, 9,
		1, 44, 0, 15, 192, 0, 2, 1, 1, 'x', 192, 0, 2, 2, 0,
	}, b)
}

// TestNobodyListens loses messages, and goes on.
func TestNobodyListens(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	var log bytes.Buffer
	e, err := New(Config{Address: conn.LocalAddr().String(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	require.NoError(t, prometheus.NewRegistry().Register(e))
	require.NoError(t, e.Close())
	require.NoError(t, e.Interval(reporttest.Interval()))
	require.Contains(t, log.String(), "IPFIX messages are lost")
	_, err = New(Config{Address: "nowhere"})
	require.ErrorContains(t, err, "must be an address such as collector.example:4739")
}
