package web

import (
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestInside looks inside a relay with twelve subscribers.
func TestInside(t *testing.T) {
	r := startRelay(t)
	r.publishClip(t, "live/clip")
	subscribers := make([]*program, 12)
	for i := range subscribers {
		subscribers[i] = start(t, "sub", "--relay", r.moqt, "--tls-disable-verify", "--namespace", "live/clip",
			"--wait", "30s", "--out", t.TempDir()+"/out.mp4")
	}
	t.Cleanup(func() { // all at once
		for _, s := range subscribers {
			_ = s.Process.Signal(syscall.SIGTERM)
		}
	})
	b := browse(t)
	b.open(r.page + "inside")
	b.until(`[...document.querySelectorAll('#numbers div')].some(d => d.innerText === 'viewers\n12')`)
	b.until(`document.querySelectorAll('#graphs canvas').length === 5`)
	b.until(`/process, p50 . p99, [1-9]/.test(document.querySelector('#graphs figure:last-child div').ariaLabel)`)
	b.until(`/out [1-9]/.test(document.querySelector('#graphs div').ariaLabel)`)
	b.until(`(window.seen ??= new Set()).add(document.querySelector('#numbers').innerText).size > 4`)
	b.looks("inside")

	b.run(chromedp.Evaluate(`[...document.querySelectorAll('#tracks button')].at(0).focus()`, nil))
	b.run(chromedp.KeyEvent("\r"))
	b.until(`document.querySelectorAll('#subscribers tbody tr').length === 12`)
	b.until(`document.querySelectorAll('#paths canvas').length === 2`)
	b.until(`document.activeElement.matches('#tracks button[aria-pressed=true]')`)
	require.True(t, eval[bool](b, `[...document.querySelectorAll('#subscribers tbody tr')].every(({cells}) =>
		/^[0-9.]+ (µs|ms|s)$/.test(cells[1].innerText) && /^[0-9.]+ [kM]B$/.test(cells[3].innerText))`))
	b.run(chromedp.Evaluate(`document.querySelector('#detail').scrollIntoView()`, nil))
	b.screenshot("inside-track")
	require.LessOrEqual(t, eval[int](b, `document.documentElement.scrollWidth - innerWidth`), 0)
	require.Empty(t, b.console)
}
