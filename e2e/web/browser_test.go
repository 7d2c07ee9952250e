package web

import (
	"encoding/json"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/internal/cli/clitest"
	"sluice/internal/logs/logstest"
)

const (
	clip     = "../../testdata/clip.mp4"
	patience = 60 * time.Second // of a step; the machine may be busy
)

func TestMain(m *testing.M) {
	code := clitest.Main(m, "sluice")
	endChromium()
	os.Exit(code)
}

// program is a command that runs until the test ends.
type program struct {
	*exec.Cmd
	output logstest.Buffer
}

func start(t *testing.T, args ...string) *program {
	t.Helper()
	return startProgram(t, "sluice", args...)
}

func startProgram(t *testing.T, path string, args ...string) *program {
	t.Helper()
	p := &program{Cmd: exec.Command(path, args...)}
	p.Stdout, p.Stderr = &p.output, &p.output
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

// says waits until the program has printed what matches, and returns the match and its groups.
func (p *program) says(t *testing.T, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	if !assert.Eventually(t, func() bool {
		found = pattern.FindStringSubmatch(p.output.String())
		return found != nil
	}, patience, 10*time.Millisecond) {
		t.Fatalf("the program does not say %s: %s", pattern, p.output.String())
	}
	return found
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
		addr, err := clitest.FreeAddress() // with a port that is free for TCP, too
		require.NoError(t, err)
		args = append(args, "--listen", addr)
	}
	r := start(t, args...)
	found := r.says(t, urls)
	return &relay{r, found[2], found[1]}
}

// publishClip publishes the sample clip again and again.
func (r *relay) publishClip(t *testing.T, name string, flags ...string) *program {
	t.Helper()
	args := []string{"pub", "--relay", r.moqt, "--tls-disable-verify", "--namespace", name, "--loop"}
	return start(t, append(append(args, flags...), clip)...)
}

// driver drives a tab of a browser.
type driver interface {
	open(url string) error
	// evaluate returns the JSON of an expression, which may be a promise.
	evaluate(expression string) ([]byte, error)
	click(selector string) error
	// atStart runs a script in the pages that are opened next, before their own.
	atStart(script string) error
	// capture returns a picture of the page.
	capture() ([]byte, error)
}

// tab is a tab of a browser. It collects what the console says.
type tab struct {
	driver driver
	t      *testing.T

	mu      sync.Mutex
	console []string
}

func (b *tab) note(line string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.console = append(b.console, line)
}

func (b *tab) require(err error) {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.NoError(b.t, err, "console: %q", b.console)
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.require(b.driver.open(url))
}

func (b *tab) click(selector string) {
	b.t.Helper()
	b.require(b.driver.click(selector))
}

func (b *tab) atStart(script string) {
	b.t.Helper()
	b.require(b.driver.atStart(script))
}

// eval evaluates an expression, which may be a promise.
func eval[T any](b *tab, expression string) (value T) {
	b.t.Helper()
	text, err := b.driver.evaluate(expression)
	b.require(err)
	b.require(json.Unmarshal(text, &value))
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
func (b *tab) text() string {
	text, _ := b.driver.evaluate(`document.body.innerText +
		[...(document.querySelector('sluice-player')?.shadowRoot.children ?? [])].map(e => e.innerText).join(' ')`)
	return string(text)
}

// screenshot keeps a picture of the page, if that is wanted.
func (b *tab) screenshot(name string) {
	b.t.Helper()
	folder := os.Getenv("SLUICE_SCREENSHOTS")
	if folder == "" {
		return
	}
	png, err := b.driver.capture()
	b.require(err)
	require.NoError(b.t, os.MkdirAll(folder, 0o777))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o666))
}

// statistics are the statistics of the page's player.
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

// moves expects a picture with more colours than so many, and another one some pictures later.
func (b *tab) moves(colours, pictures int) {
	b.t.Helper()
	n, first := b.pixels()
	require.Greater(b.t, n, colours, "the picture is empty")
	b.awaitPictures(b.statistics().Shown + pictures)
	_, second := b.pixels()
	require.NotEqual(b.t, first, second, "the picture does not move")
}
