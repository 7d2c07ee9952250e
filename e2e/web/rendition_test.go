package web

import (
	"fmt"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/require"

	"sluice/internal/thorough"
)

// watchLadder opens a broadcast with two renditions behind a path that can be limited, after a script has run.
func watchLadder(t *testing.T, script string) (*tab, *bottleneck) {
	t.Helper()
	r := startRelay(t)
	start(t, "pub", "--relay", r.moqt, "--tls-disable-verify", "--namespace", "live/clip", "--loop",
		clip, "../../player/sub/testdata/low.mp4")
	path := newBottleneck(t, r)
	b := browse(t)
	b.run(page.SetBypassCSP(true)) // the page's own allows the relay's port only
	b.atStart(script)
	b.atStart(fmt.Sprintf(`globalThis.WebTransport = class extends WebTransport {
		constructor(url, options) { super(url.replace(/:\d+/, ':%d'), options); }
	}`, path.port()))
	b.open(r.page + "embed?broadcast=live/clip&latency=400")
	b.awaitPictures(25)
	b.until(inPlayer("select", `selectedOptions[0].text.startsWith('Auto: 360p')`))
	return b, path
}

// TestRenditions changes the rendition without a loss, and lets the player do so when the path becomes slow.
func TestRenditions(t *testing.T) {
	thorough.Browser(t)
	b, path := watchLadder(t, "")
	b.losesNothing(func() {
		for _, height := range []int{90, 360} {
			b.chooseQuality(fmt.Sprintf("%dp", height))
			b.until(inPlayer("canvas", fmt.Sprintf("height === %d", height)))
			b.awaitPictures(b.statistics().Shown + 10)
		}
	})

	b.chooseQuality("Auto")
	path.rate.Store(200_000)
	b.until(inPlayer("select", `selectedOptions[0].text.startsWith('Auto: 90p')`))
	b.until(inPlayer("canvas", "height === 90"))
	b.awaitPictures(b.statistics().Shown + 25)
	b.looks("renditions")
	require.Empty(t, b.console)
}

// TestRenditionsWithoutWebCodecs lets a player choose the rendition that has Media Source Extensions only.
func TestRenditionsWithoutWebCodecs(t *testing.T) {
	thorough.Only(t)
	t.Parallel()
	b, path := watchLadder(t, `delete globalThis.VideoDecoder`)
	path.rate.Store(200_000)
	b.until(inPlayer("select", `selectedOptions[0].text.startsWith('Auto: 90p')`))
	b.until(inPlayer("video", "videoHeight === 90"))
	b.awaitPictures(b.statistics().Shown + 25)
	require.Empty(t, b.console)
}

// inPlayer returns an expression about an element of the player.
func inPlayer(selector, expression string) string {
	const root = "document.querySelector('sluice-player').shadowRoot"
	return fmt.Sprintf("%s.querySelector('%s').%s", root, selector, expression)
}

// chooseQuality chooses the quality whose name begins so.
func (b *tab) chooseQuality(name string) {
	b.t.Helper()
	b.until(fmt.Sprintf(`(() => {
		const q = document.querySelector('sluice-player').shadowRoot.querySelector('select');
		const option = [...q.options].find(o => o.text.startsWith(%q));
		if (!option) return false;
		q.value = option.value;
		q.dispatchEvent(new Event('change'));
		return true;
	})()`, name))
}

// bottleneck is a path to a relay whose rate towards the browser can be limited.
type bottleneck struct {
	conn *net.UDPConn
	rate atomic.Int64 // bits per second; 0: no limit
}

// queueTime is how long packets wait at most; those beyond are lost.
const queueTime = time.Second

func newBottleneck(t *testing.T, r *relay) *bottleneck {
	t.Helper()
	u, err := url.Parse(r.moqt)
	require.NoError(t, err)
	to, err := net.ResolveUDPAddr("udp", u.Host)
	require.NoError(t, err)
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	p := &bottleneck{conn: conn}
	go p.run(to)
	return p
}

func (p *bottleneck) port() int { return p.conn.LocalAddr().(*net.UDPAddr).Port }

// run passes packets on to the relay, from a socket for each client.
func (p *bottleneck) run(to *net.UDPAddr) {
	sockets := map[string]*net.UDPConn{}
	defer func() {
		for _, s := range sockets {
			_ = s.Close()
		}
	}()
	for b := make([]byte, 1<<16); ; {
		n, client, err := p.conn.ReadFromUDP(b)
		if err != nil {
			return
		}
		socket := sockets[client.String()]
		if socket == nil {
			if socket, err = net.DialUDP("udp", nil, to); err != nil {
				continue // as if the packet were lost
			}
			sockets[client.String()] = socket
			go p.back(socket, client)
		}
		_, _ = socket.Write(b[:n])
	}
}

// back passes packets on to a client, no faster than the rate.
func (p *bottleneck) back(socket *net.UDPConn, client *net.UDPAddr) {
	var free time.Time // when the path is, after all that waits
	for b := make([]byte, 1<<16); ; {
		n, err := socket.Read(b)
		if err != nil {
			return
		}
		rate := p.rate.Load()
		if rate == 0 {
			_, _ = p.conn.WriteToUDP(b[:n], client)
			continue
		}
		now := time.Now()
		if free.Before(now) {
			free = now
		}
		if free.Sub(now) > queueTime {
			continue
		}
		free = free.Add(time.Duration(n) * 8 * time.Second / time.Duration(rate))
		packet := append([]byte(nil), b[:n]...)
		time.AfterFunc(free.Sub(now), func() { _, _ = p.conn.WriteToUDP(packet, client) })
	}
}
