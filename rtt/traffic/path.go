package traffic

import (
	"encoding/binary"
	"math"
	"net/netip"
	"time"
)

// path is a customer, a server, and how far both are from the monitor.
type path struct {
	customer, server netip.AddrPort
	near, far        time.Duration // RTTs between the monitor and the customer, and the server, without queues
}

// distance returns an RTT that belongs to a number, with a log-normal distribution.
func distance(number uint64, median time.Duration, sigma float64) time.Duration {
	h := number*0x9e3779b97f4a7c15 + 1 // spreads numbers over 64 bits
	h ^= h >> 32
	h *= 0xd6e8feb86659fd93
	h ^= h >> 32
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return time.Duration(float64(median) * math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1)))
}

// customerAddress returns a host of a customer's prefix: even ones are IPv4.
func customerAddress(prefix uint64, host int) netip.Addr {
	n := uint16(prefix / 2)
	if prefix%2 == 0 {
		return netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), byte(host)})
	}
	a := [16]byte{0x20, 0x01, 0x0d, 0xb8, byte(n >> 8), byte(n), 15: byte(host)}
	return netip.AddrFrom16(a)
}

// serverAddress returns an address of 198.18.0.0/15, or of 3fff::/20.
func serverAddress(server uint64, ipv4 bool) netip.Addr {
	if ipv4 {
		return netip.AddrFrom4([4]byte{198, 18, byte(server >> 8), byte(server)})
	}
	a := [16]byte{0: 0x3f, 1: 0xff, 15: 1}
	binary.BigEndian.PutUint16(a[4:], uint16(server))
	return netip.AddrFrom16(a)
}
