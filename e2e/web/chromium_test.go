package web

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// The size of the window.
const width, height = 1200, 900

// chromium is the browser of all tests, with a fake camera and microphone.
var chromium struct {
	once sync.Once
	ctx  context.Context
	end  func()
}

// endChromium ends the browser, if a test has started it.
func endChromium() {
	if chromium.end != nil {
		chromium.end()
	}
}

func startChromium(path string) {
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(width, height),
		chromedp.Flag("autoplay-policy", "no-user-gesture-required"),
		chromedp.Flag("use-fake-device-for-media-stream", true),
		chromedp.Flag("use-fake-ui-for-media-stream", true),
		chromedp.WSURLReadTimeout(patience),
	)
	all, end := chromedp.NewExecAllocator(context.Background(), options...)
	chromium.ctx, _ = chromedp.NewContext(all)
	chromium.end = end
}

// chromiumTab drives a tab of Chromium.
type chromiumTab struct{ ctx context.Context }

// browse opens a tab of Chromium.
func browse(t *testing.T) *tab {
	t.Helper()
	path := find(t, "chromium")
	chromium.once.Do(func() {
		startChromium(path)
		require.NoError(t, chromedp.Run(chromium.ctx))
	})
	return newTab(t)
}

// find returns the path of a browser. Without it the test is skipped.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	if os.Getenv("SLUICE_REQUIRE_KERNEL") != "" {
		t.Fatalf("%s is missing: run make deps", name)
	}
	t.Skipf("needs %s: run make deps", name)
	return ""
}

func newTab(t *testing.T) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(chromium.ctx)
	t.Cleanup(cancel)
	b := &tab{t: t, driver: chromiumTab{ctx}}
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
	require.NoError(t, chromedp.Run(ctx, chromedp.Navigate("about:blank"))) // the first call must not have a timeout
	return b
}

func (c chromiumTab) run(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

func (c chromiumTab) open(url string) error { return c.run(chromedp.Navigate(url)) }

func (c chromiumTab) click(selector string) error { return c.run(chromedp.Click(selector)) }

func (c chromiumTab) evaluate(expression string) (value []byte, err error) {
	err = c.run(chromedp.Evaluate(expression, &value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true)
	}))
	return value, err
}

func (c chromiumTab) atStart(script string) error {
	return c.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(script).Do(ctx)
		return err
	}))
}

func (c chromiumTab) capture() (png []byte, err error) {
	err = c.run(chromedp.CaptureScreenshot(&png))
	return png, err
}

// run makes Chromium do what other browsers do not.
func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	b.require(b.driver.(chromiumTab).run(actions...))
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
	b.run(chromedp.EmulateViewport(width, height), scheme("light"))
}
