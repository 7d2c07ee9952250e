package web

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
)

const (
	clip     = "../../testdata/clip.mp4"
	patience = 60 * time.Second // of a step; the machine may be busy
)

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, "sluice")) }

// program is a command that runs until the test ends.
type program struct {
	*exec.Cmd
	mu     sync.Mutex
	output bytes.Buffer
}

func (p *program) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.Write(b)
}

func (p *program) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command("sluice", args...)}
	p.Stdout, p.Stderr = p, p
	require.NoError(t, p.Start())
	t.Cleanup(p.stop)
	return p
}

func (p *program) stop() {
	if p.ProcessState != nil {
		return
	}
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Wait()
}

// relay is a relay with --dev, on this machine.
type relay struct {
	*program
	page, moqt string // URLs
}

var urls = regexp.MustCompile(`(?s)raw QUIC +(\S+).*web page +(\S+)`)

func startRelay(t *testing.T, args ...string) *relay {
	t.Helper()
	args = append([]string{"relay", "--dev", "--admin", "", "--fastpath", "off", "--drain", "0s"}, args...)
	if !strings.Contains(strings.Join(args, " "), "--listen") {
		args = append(args, "--listen", "127.0.0.1:0")
	}
	r := &relay{program: start(t, args...)}
	require.Eventually(t, func() bool {
		m := urls.FindStringSubmatch(r.said())
		if m != nil {
			r.moqt, r.page = m[1], m[2]
		}
		return m != nil
	}, patience, 10*time.Millisecond, "the relay does not say where its page is")
	return r
}

// publishClip publishes the sample clip again and again.
func (r *relay) publishClip(t *testing.T, name string, flags ...string) *program {
	t.Helper()
	args := []string{"pub", "--relay", r.moqt, "--tls-disable-verify", "--namespace", name, "--loop"}
	return start(t, append(append(args, flags...), clip)...)
}

// tab is a tab of a browser. It collects what the console says.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu      sync.Mutex
	console []string
}

// browse starts Chromium with a fake camera and microphone.
func browse(t *testing.T, flags ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
			t.Fatal("chromium is missing: run make deps")
		}
		t.Skip("needs chromium: run make deps")
	}
	options := append(append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1200, 900),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"),
		chromedp.Flag("use-fake-device-for-media-stream", true),
		chromedp.Flag("use-fake-ui-for-media-stream", true),
		chromedp.WSURLReadTimeout(patience),
	)
	all, cancel := chromedp.NewExecAllocator(context.Background(), append(options, flags...)...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(all)
	t.Cleanup(cancel)
	b := newTab(t, ctx)
	b.run(chromedp.Navigate("about:blank"))
	return b
}

func newTab(t *testing.T, ctx context.Context) *tab {
	b := &tab{t: t, ctx: ctx}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			for _, arg := range e.Args {
				b.note(fmt.Sprintf("%s: %s %s", e.Type, arg.Value, arg.Description))
			}
		case *runtime.EventExceptionThrown:
			b.note("exception: " + e.ExceptionDetails.Error())
		}
	})
	return b
}

// another opens a tab of the same browser.
func (b *tab) another() *tab {
	ctx, cancel := chromedp.NewContext(b.ctx)
	b.t.Cleanup(cancel)
	return newTab(b.t, ctx)
}

func (b *tab) note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.console = append(b.console, line)
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(b.ctx); err != nil { // the first call must not end with ctx
		require.NoError(b.t, err)
	}
	err := chromedp.Run(ctx, actions...)
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NoError(b.t, err, "console: %q", b.console)
}

// atStart runs a script in the pages that are opened next, before their own.
func (b *tab) atStart(script string) {
	b.t.Helper()
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))
}

// eval evaluates an expression, which may be a promise.
func eval[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	b.run(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value
}

// until waits until an expression is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for !eval[bool](b, "Boolean("+expression+")") {
		if time.Now().After(end) {
			b.screenshot("failed")
			b.mu.Lock()
			defer b.mu.Unlock()
			b.t.Fatalf("not true: %s; the page says %q; console: %q", expression, b.text(), b.console)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// text returns what the page and its player say.
func (b *tab) text() (text string) {
	_ = chromedp.Run(b.ctx, chromedp.Evaluate(
		`document.body.innerText + [...(document.querySelector('sluice-player')?.shadowRoot.children ?? [])].
			map(e => e.innerText).join(' ')`, &text))
	return text
}

// screenshot keeps a picture of the page, if that is wanted.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	folder := os.Getenv("SLUICE_SCREENSHOTS")
	if folder == "" {
		return
	}
	var png []byte
	b.run(chromedp.CaptureScreenshot(&png))
	require.NoError(b.t, os.MkdirAll(folder, 0o777))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o666))
}

// looks takes screenshots on a light and a dark screen, and on a phone.
func (b *tab) looks(name string) {
	b.t.Helper()
	if os.Getenv("SLUICE_SCREENSHOTS") == "" {
		return
	}
	scheme := func(value string) chromedp.Action {
		return emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: value},
		})
	}
	b.run(scheme("light"))
	b.screenshot(name + "-light")
	b.run(scheme("dark"))
	b.screenshot(name + "-dark")
	b.run(chromedp.EmulateViewport(390, 844))
	b.screenshot(name + "-phone")
	b.run(chromedp.EmulateReset(), scheme("light"))
}

// statistics are those of the page's player.
type statistics struct {
	Latency, Target, Bitrate, Speed float64
	EndToEnd                        *float64
	Shown, Dropped, Lost            int
}

func (b *tab) statistics() statistics {
	b.t.Helper()
	return eval[statistics](b, `document.querySelector('sluice-player').player.statistics()`)
}

// awaitPictures waits until the player has shown that many.
func (b *tab) awaitPictures(n int) {
	b.t.Helper()
	b.until(fmt.Sprintf(`document.querySelector('sluice-player')?.player?.statistics().shown >= %d`, n))
}

// pixels returns a hash of the picture that the player shows, and how many colours it has.
func (b *tab) pixels() (colours int, sum float64) {
	b.t.Helper()
	got := eval[[2]float64](b, `(() => {
		const c = document.querySelector('sluice-player').shadowRoot.querySelector('canvas');
		const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
		const seen = new Set();
		let sum = 0;
		for (let i = 0; i < p.length; i += 4 * 97) {
			seen.add(p[i] << 16 | p[i + 1] << 8 | p[i + 2]);
			sum = (sum * 31 + p[i] + p[i + 1] + p[i + 2]) % 1e9;
		}
		return [seen.size, sum];
	})()`)
	return int(got[0]), got[1]
}
