package otlp

import (
	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/slim/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/slim/otlp/resource/v1"

	"sluice/rtt/report"
)

// scope names the origin of the metrics.
const scope = "sluice/rtt"

const delta = metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA

// message collects the data points of some prefixes of an interval.
type message struct {
	by         report.Keys
	start, end uint64 // ns

	rtts                                           []*metrics.ExponentialHistogramDataPoint
	bytes, segments, retransmissions, marked, loss []*metrics.NumberDataPoint
}

func newMessage(i *report.Interval) *message {
	return &message{
		by: i.Aggregation.By, start: uint64(i.Start.UnixNano()), end: uint64(i.End.UnixNano()),
	}
}

// add adds the data points of a prefix. Zeros are left out.
func (m *message) add(p *report.Prefix) {
	m.addRTTs(p, "hosts", &p.RTT)
	for _, part := range p.Parts() {
		m.addRTTs(p, part.Name, part.RTTs)
	}
	m.addDirection(p, "receive", &p.Received)
	m.addDirection(p, "transmit", &p.Sent)
}

// addDirection adds the data points of a prefix's received or sent packets.
func (m *message) addDirection(p *report.Prefix, direction string, t *report.PrefixTraffic) {
	const key = "network.io.direction"
	m.addCount(&m.bytes, p, t.Total().Bytes, key, direction)
	m.addCount(&m.segments, p, t.TCPSegments(), key, direction)
	m.addCount(&m.retransmissions, p, t.Retransmissions, key, direction)
	m.addCount(&m.marked, p, t.ECNCapable, key, direction, "state", "capable")
	m.addCount(&m.marked, p, t.ECNMarked, key, direction, "state", "marked")
	for _, n := range t.QUIC.NamedCounts() {
		m.addCount(&m.loss, p, n.Count, key, direction, "state", n.Name)
	}
}

func (m *message) addRTTs(p *report.Prefix, part string, h *report.Histogram) {
	if h.Count == 0 || h.Width != 0 {
		return
	}
	sum, least, most := h.Sum.Seconds(), h.Min.Seconds(), h.Max.Seconds()
	offset, counts := report.FirstPower, h.Bins[1:]
	for len(counts) > 0 && counts[0] == 0 {
		offset, counts = offset+1, counts[1:]
	}
	m.rtts = append(m.rtts, &metrics.ExponentialHistogramDataPoint{
		Attributes: m.attributes(p, "part", part), StartTimeUnixNano: m.start, TimeUnixNano: m.end,
		Count: h.Count, Sum: &sum, Min: &least, Max: &most, Scale: report.Scale,
		ZeroCount: h.Bins[0], ZeroThreshold: h.End(0),
		Positive: &metrics.ExponentialHistogramDataPoint_Buckets{Offset: int32(offset), BucketCounts: counts},
	})
}

func (m *message) addCount(to *[]*metrics.NumberDataPoint, p *report.Prefix, n uint64, more ...string) {
	if n == 0 {
		return
	}
	*to = append(*to, &metrics.NumberDataPoint{
		Attributes: m.attributes(p, more...), StartTimeUnixNano: m.start, TimeUnixNano: m.end,
		Value: &metrics.NumberDataPoint_AsInt{AsInt: int64(n)},
	})
}

// attributes returns the prefix's keys, and then pairs of names and values.
func (m *message) attributes(p *report.Prefix, more ...string) (all []*common.KeyValue) {
	values := m.by.Values(p)
	for n, name := range m.by.Names() {
		all = append(all, text(name, values[n]))
	}
	for n := 0; n < len(more); n += 2 {
		all = append(all, text(more[n], more[n+1]))
	}
	return all
}

func text(key, value string) *common.KeyValue {
	return &common.KeyValue{Key: key, Value: &common.AnyValue{Value: &common.AnyValue_StringValue{StringValue: value}}}
}

// data returns the message, about the resource that runs the monitor. Metrics without data points are left out.
func (m *message) data(about *resource.Resource) *metrics.MetricsData {
	var all []*metrics.Metric
	if len(m.rtts) > 0 {
		all = append(all, &metrics.Metric{
			Name: "sluice.rtt", Unit: "s",
			Description: "RTTs of the hosts of a prefix, their parts, and RTTs of the whole path.",
			Data: &metrics.Metric_ExponentialHistogram{ExponentialHistogram: &metrics.ExponentialHistogram{
				AggregationTemporality: delta, DataPoints: m.rtts,
			}},
		})
	}
	for _, sum := range []struct {
		name, unit, description string
		points                  []*metrics.NumberDataPoint
	}{
		{"sluice.rtt.io", "By", "Bytes that a prefix received or sent.", m.bytes},
		{"sluice.rtt.tcp.segments", "{segment}", "TCP segments that a prefix received or sent.", m.segments},
		{"sluice.rtt.retransmissions", "{segment}",
			"TCP segments that a prefix received or sent, and that were sent again.", m.retransmissions},
		{"sluice.rtt.ecn", "{packet}",
			"Packets that a prefix received or sent, and that ECN may mark (capable) or has marked.", m.marked},
		{"sluice.rtt.quic.loss", "{packet}", "Packets of QUIC that a prefix received or sent, by their loss bits.",
			m.loss},
	} {
		if len(sum.points) > 0 {
			all = append(all, &metrics.Metric{
				Name: sum.name, Description: sum.description, Unit: sum.unit,
				Data: &metrics.Metric_Sum{Sum: &metrics.Sum{
					AggregationTemporality: delta, IsMonotonic: true, DataPoints: sum.points,
				}},
			})
		}
	}
	return &metrics.MetricsData{ResourceMetrics: []*metrics.ResourceMetrics{{
		Resource:     about,
		ScopeMetrics: []*metrics.ScopeMetrics{{Scope: &common.InstrumentationScope{Name: scope}, Metrics: all}},
	}}}
}

// resourceOf says who measures.
func resourceOf(version, host, interfaces string) *resource.Resource {
	return &resource.Resource{Attributes: []*common.KeyValue{
		text("service.name", "sluice-rtt"), text("service.version", version), text("host.name", host),
		text("sluice.interfaces", interfaces),
	}}
}
