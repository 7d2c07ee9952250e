package trial

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/format"
	"github.com/pion/rtp"

	"sluice/lab/sim"
	"sluice/moqt"
	reconnect "sluice/player/client"
	"sluice/player/cmaf"
	"sluice/player/sub"
	"sluice/transport"
)

const (
	// inTime is how long a frame may take to reach a guest, since it was sent or the guest has joined.
	inTime = 10 * time.Second
	// held is how long players wait for an object that is late: longer than a mishap takes. One that joins at the last
	// object of a group does not know that the group is over, and waits as long.
	held = 5 * time.Second
	// tooSlow is how long a guest may not read without being sent away.
	tooSlow = 8 * time.Second
)

// frame returns a frame of the picture: a NAL unit with its number. Those that begin groups are long.
func (r *RTSP) frame(number uint64) []byte {
	size, header := 20+number*977%600, byte(0x41)
	if r.isKey(number) {
		size, header = 1000+number*977%8000, 0x65
	}
	b := fmt.Appendf([]byte{header, 0x80}, "%016x", number) // without start codes
	for i := range size {
		b = append(b, byte(number*7+i)|1)
	}
	return b
}

func (r *RTSP) isKey(number uint64) bool { return number%r.Group == 0 }

// sounds is how many frames of sound come with each of the picture: so that the queue of a player can be full soon.
const sounds = 5

// per is how many frames of a kind, picture or sound, come with a frame of the picture.
var per = [2]uint64{1, sounds}

// sound returns a frame of sound: 20 ms of Opus.
func (r *RTSP) sound(number uint64) []byte {
	return fmt.Appendf([]byte{0xfc}, "%016x", number)
}

// guest is who plays the broadcast.
type guest struct {
	*broadcast
	spec   *Guest
	host   int
	remote string // the address of its TCP connection

	mu     sync.Mutex
	due    uint64 // the first frame that has to come at the latest
	joined bool
	got    [2][]uint64 // frames of the picture, and of sound
	faults []string
}

func (g *guest) fault(text string, args ...any) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, fmt.Sprintf(text, args...))
}

// take judges a frame: whose bytes were published, and which is later than the ones before.
func (g *guest) take(kind int, frame []byte) {
	at := min(len(frame), []int{2, 1}[kind])
	number, err := strconv.ParseUint(string(frame[at:min(len(frame), at+16)]), 16, 64)
	want := []func(uint64) []byte{g.frame, g.sound}[kind]
	if err != nil || number >= g.Frames*per[kind] || !bytes.Equal(frame, want(number)) {
		g.fault("frame %d of %d bytes has other bytes than were published", number, len(frame))
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if list := g.got[kind]; len(list) > 0 && list[len(list)-1] >= number {
		g.faults = append(g.faults, fmt.Sprintf("frame %d came behind frame %d", number, list[len(list)-1]))
	}
	g.got[kind] = append(g.got[kind], number)
	if kind == 0 && g.spec.Scheme == rtspScheme {
		g.expectLocked(number + g.Group)
	}
}

// next returns the first key frame that is published from now on.
func (b *broadcast) next() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := uint64(len(b.sent))
	return (n + b.Group - 1) / b.Group * b.Group
}

// live has a guest join, play, and leave.
func (b *broadcast) live(spec *Guest) {
	time.Sleep(spec.Joins)
	g := &guest{broadcast: b, spec: spec, host: b.life.host(spec.Relay, spec.Client)}
	b.mu.Lock()
	b.guests = append(b.guests, g)
	b.mu.Unlock()
	b.life.note("guest %d joins relay %d by %s", spec.Number, spec.Relay, spec.Scheme)
	if spec.Scheme == rtspScheme {
		g.playRTSP()
	} else {
		g.playMoQ()
	}
}

// leaves returns when the guest leaves.
func (g *guest) leaves() time.Duration {
	if g.spec.Leaves > 0 {
		return g.spec.Leaves - g.spec.Joins
	}
	return max(0, time.Duration(g.Frames)*g.Pause-g.spec.Joins) + g.life.rest()
}

// expect demands all frames from the next key frame on: at once from the relay that has the publisher's packets, else
// when a subscription had time to begin, or behind the first group that came by RTSP.
func (g *guest) expect() {
	wait := inTime
	if g.spec.Scheme == rtspScheme && g.spec.Relay == 1 {
		wait = 0
	}
	time.AfterFunc(wait, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.expectLocked(g.next())
	})
}

func (g *guest) expectLocked(number uint64) {
	if !g.joined {
		g.joined, g.due = true, number
	}
}

// die has the guest vanish, if it is one that does.
func (g *guest) die() {
	if g.spec.Dies && g.spec.Leaves > 0 {
		g.life.note("guest %d vanishes", g.spec.Number)
		g.life.net.Kill(sim.Host(g.host))
	}
}

// playRTSP plays by RTSP. The broadcast may not be known yet where nobody has asked for it.
func (g *guest) playRTSP() {
	var c *gortsplib.Client
	err := fmt.Errorf("no try")
	for begin := time.Now(); err != nil && time.Since(begin) < reconnectTime; {
		if c, err = g.startRTSP(); err != nil {
			g.life.note("guest %d: %v", g.spec.Number, err)
			time.Sleep(time.Second)
		}
	}
	if err != nil {
		if g.Dies == 0 && g.spec.Joins+reconnectTime < time.Duration(g.Frames)*g.Pause {
			g.fault("cannot play: %v", err)
		}
		return
	}
	g.expect()
	time.Sleep(g.leaves())
	g.die()
	c.Close()
}

// startRTSP opens a session and begins to play.
func (g *guest) startRTSP() (_ *gortsplib.Client, err error) {
	c, u := g.life.rtspClient(g.host), rtspURL(g.spec.Relay)
	dial := c.DialContext
	c.DialContext = func(ctx context.Context, network, to string) (net.Conn, error) {
		conn, err := dial(ctx, network, to)
		if err != nil {
			return nil, err
		}
		g.remote = conn.LocalAddr().String()
		return &stalling{conn, g, time.Now().Add(g.spec.Stalls)}, nil
	}
	c.Scheme, c.Host = u.Scheme, u.Host
	if err := c.Start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	desc, _, err := c.Describe(u)
	if err != nil {
		return nil, err
	}
	if err := c.SetupAll(desc.BaseURL, desc.Medias); err != nil {
		return nil, err
	}
	if err := g.receive(c, desc); err != nil {
		return nil, err
	}
	_, err = c.Play(nil)
	return c, err
}

// stalling is a connection that a guest does not read for a time. The library holds a mutex while it takes a packet, so
// it cannot be the one who waits.
type stalling struct {
	net.Conn
	guest *guest
	at    time.Time // zero: that is over
}

// Read implements [net.Conn].
func (s *stalling) Read(b []byte) (int, error) {
	if s.guest.spec.Lasts > 0 && !s.at.IsZero() && time.Now().After(s.at) {
		s.at = time.Time{}
		s.guest.life.note("guest %d does not read for %v", s.guest.spec.Number, s.guest.spec.Lasts)
		time.Sleep(s.guest.spec.Lasts)
	}
	return s.Conn.Read(b)
}

// receive takes frames out of the packets of a session.
func (g *guest) receive(c *gortsplib.Client, desc *description.Session) error {
	for _, m := range desc.Medias {
		h264, isPicture := m.Formats[0].(*format.H264)
		if !isPicture {
			c.OnPacketRTP(m, m.Formats[0], func(p *rtp.Packet) { g.take(1, p.Payload) })
			continue
		}
		d, err := h264.CreateDecoder()
		if err != nil {
			return err
		}
		c.OnPacketRTP(m, h264, func(p *rtp.Packet) {
			units, err := d.Decode(p)
			if err == nil {
				g.takeUnits(units)
			}
		})
	}
	return nil
}

// takeUnits takes the slice out of an access unit. Parameter sets may come before it.
func (g *guest) takeUnits(units [][]byte) {
	for _, u := range units {
		if len(u) > 0 && (u[0]&31 == 1 || u[0]&31 == 5) {
			g.take(0, u)
		}
	}
}

// playMoQ plays as package sub does, and takes frames out of its output when that has ended.
func (g *guest) playMoQ() {
	ctx, cancel := context.WithTimeout(g.life.t.Context(), g.leaves())
	defer cancel()
	var out bytes.Buffer
	cfg := sub.PlayerConfig{
		Namespace: moqt.Namespace{guestNamespace}, Out: &out, Wait: rendezvous, Hold: held,
		Client: reconnect.SessionConfig{
			URL: g.life.url(g.spec.Relay, g.spec.Scheme), Logger: slog.New(slog.DiscardHandler),
			Transport: transport.ClientConfig{
				Insecure: true, Inspection: g.life.inspection(), ClosingPeriod: transport.ClosingPeriod,
				ListenUDP: func(string, *net.UDPAddr) (transport.UDPConn, error) {
					return g.life.net.Listen(netip.AddrPortFrom(sim.Host(g.host), 0))
				},
			},
		},
	}
	g.expect()
	if g.spec.Leaves > 0 {
		time.AfterFunc(g.leaves(), g.die)
	}
	_, err := sub.Run(ctx, cfg, func(sub.Progress) {})
	if err != nil && ctx.Err() == nil {
		g.fault("cannot play: %v", err)
	}
	g.takeFile(&out)
}

// takeFile takes the frames of fragmented MP4.
func (g *guest) takeFile(file io.Reader) {
	r := cmaf.NewReader(file)
	in, err := r.Init()
	if err != nil {
		return // nothing has come
	}
	for c, err := r.Next(); err == nil; c, err = r.Next() {
		samples, err := in.Samples(c.Data)
		g.life.check(err)
		for _, s := range samples {
			for _, t := range in.Tracks {
				switch {
				case t.ID != c.Track:
				case t.Kind == cmaf.Video:
					g.takeUnits(unitsOf(s.Data))
				default:
					g.take(1, s.Data)
				}
			}
		}
	}
}

// unitsOf returns NAL units that have their lengths before them.
func unitsOf(b []byte) (units [][]byte) {
	for len(b) >= 4 {
		n := min(int(binary.BigEndian.Uint32(b)), len(b)-4)
		units, b = append(units, b[4:4+n]), b[4+n:]
	}
	return units
}

// published returns how many frames have to arrive: all, or those that the publisher has sent long before it vanished.
func (b *broadcast) published() uint64 {
	if b.Dies == 0 {
		return b.Frames
	}
	return b.Dies - min(b.Dies, uint64(inTime/2/b.Pause))
}

// verdict returns the faults of all guests.
func (b *broadcast) verdict() (faults []string) {
	b.mu.Lock()
	guests := b.guests
	b.mu.Unlock()
	for _, g := range guests {
		for _, f := range g.verdict() {
			faults = append(faults, fmt.Sprintf("guest %d: %s", g.spec.Number, f))
		}
	}
	return faults
}

func (g *guest) verdict() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for kind, list := range g.got {
		name, due, end := []string{"the picture", "sound"}[kind], g.due*per[kind], g.published()*per[kind]
		for i := 1; i < len(list); i++ {
			if list[i] != list[i-1]+1 && !g.excused(list[i], kind) {
				g.faults = append(g.faults,
					fmt.Sprintf("frames of %s from %d to %d are missing", name, list[i-1]+1, list[i]-1))
			}
		}
		if g.spec.Leaves > 0 || !g.joined || due >= end || g.spec.Lasts >= tooSlow {
			continue
		}
		if len(list) > 0 && list[0] <= due && list[len(list)-1] < end-1 && g.excused(0, kind) {
			continue // it waits for a group, or has not taken the last packets in time
		}
		if len(list) == 0 || list[0] > due || list[len(list)-1] < end-1 {
			g.faults = append(g.faults, fmt.Sprintf("frames of %s from %d to %d are missing: %d came, from %v on",
				name, due, end-1, len(list), list[:min(1, len(list))]))
		}
	}
	return g.faults
}

// excused reports whether the relay may have decided that a guest by RTSP goes on with a frame, the first of a group:
// its guests lack no more than it has counted as dropped. Behind other relays, the first sound of a group is the one
// that follows the key frame by its time: the clocks of picture and sound begin when their first packets come, and TCP
// may have lost one.
func (g *guest) excused(number uint64, kind int) bool {
	exact := kind == 0 || g.spec.Relay == 1
	if g.spec.Scheme != rtspScheme || exact && number%(per[kind]*g.Group) != 0 {
		return false
	}
	g.excuses[kind][g.spec.Relay]++
	return g.excuses[kind][g.spec.Relay] <= g.life.process(g.spec.Relay).dropped()
}
