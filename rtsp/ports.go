package rtsp

import (
	"errors"
	"math"
	"net/netip"
	"slices"
	"sync"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
)

// ports are the UDP ports of clients that sessions use, each by one. The library would give the packets of a publisher
// to the session that names its port last, and to none when that session ends.
type ports struct {
	mu    sync.Mutex
	owner map[clientPort]*gortsplib.ServerSession
	of    map[*gortsplib.ServerSession][]clientPort
}

// clientPort is a port as a client names it.
type clientPort struct {
	ip   netip.Addr
	port int
}

// maxPorts is how many ports a session may name: two for each media.
const maxPorts = 2 * maxMedias

var errPorts = errors.New("other sessions use these ports, they do not exist, or are too many: choose others, or TCP")

func newPorts() *ports {
	return &ports{
		owner: make(map[clientPort]*gortsplib.ServerSession), of: make(map[*gortsplib.ServerSession][]clientPort),
	}
}

// take gives a session the ports that it asks for, until leave.
func (p *ports) take(c *gortsplib.ServerHandlerOnSetupCtx) error {
	asked := askedPorts(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range asked {
		if s := p.owner[a]; s != nil && s != c.Session || a.port < 1 || a.port > math.MaxUint16 {
			return errPorts
		}
	}
	asked = slices.DeleteFunc(asked, func(a clientPort) bool { return p.owner[a] != nil })
	if len(p.of[c.Session])+len(asked) > maxPorts {
		return errPorts
	}
	for _, a := range asked {
		p.owner[a] = c.Session
		p.of[c.Session] = append(p.of[c.Session], a)
	}
	return nil
}

// askedPorts returns the UDP ports of the transport that the library has chosen: the first one that it serves.
func askedPorts(c *gortsplib.ServerHandlerOnSetupCtx) []clientPort {
	var list headers.Transports
	if c.Transport.Protocol != gortsplib.ProtocolUDP || list.Unmarshal(c.Request.Header["Transport"]) != nil {
		return nil
	}
	ip, _ := netip.AddrFromSlice(addressOf(c.Conn))
	for _, t := range list {
		multicast := t.Delivery != nil && *t.Delivery == headers.TransportDeliveryMulticast
		udp := t.Protocol == headers.TransportProtocolUDP && t.Profile == c.Transport.Profile && !multicast
		if udp && t.ClientPorts != nil {
			rtp, rtcp := clientPort{ip.Unmap(), t.ClientPorts[0]}, clientPort{ip.Unmap(), t.ClientPorts[1]}
			return slices.Compact([]clientPort{rtp, rtcp})
		}
	}
	return nil
}

// leave gives back the ports of a session that has ended.
func (p *ports) leave(s *gortsplib.ServerSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.of[s] {
		delete(p.owner, a)
	}
	delete(p.of, s)
}
