package web

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"sluice/internal/thorough"

	"github.com/gobwas/ws"
	"github.com/gobwas/ws/wsutil"
	"github.com/stretchr/testify/require"
)

// TestFirefox publishes Firefox's fake camera, whose pictures a page takes from a video element, and watches it in
// another window. Without a device that plays sound, Firefox does not let pages take any.
func TestFirefox(t *testing.T) {
	thorough.Browser(t)
	t.Parallel()
	r := startRelay(t)
	b := firefox(t)
	b.open(r.page + "publish")
	b.until(`!document.getElementById('start').disabled`)
	if thorough.Set() { // a busy machine has no picture of VP9 within the page's trial
		require.Equal(t, "VP9", eval[string](b, `document.getElementById('codec').selectedOptions[0].text`))
	}
	b.publish(r, map[string]string{
		"name": "live/me", "size": "360", "group": "1000", "sound": "off", "codec": "vp09.00.40.08",
	})
	viewer := b.driver.(*firefoxTab).another(t)
	viewer.open(r.page + "?broadcast=live/me")
	viewer.awaitPictures(10)
	viewer.moves(0, 15) // one colour, which changes
	viewer.screenshot("firefox-watch")
	b.screenshot("firefox-publish")
	require.Empty(t, b.console)
	require.Empty(t, viewer.console)
}

// preferences give Firefox a fake camera and microphone, and let it play sound.
const preferences = `user_pref("media.navigator.permission.disabled", true);
user_pref("media.navigator.streams.fake", true);
user_pref("media.autoplay.default", 0);
user_pref("datareporting.policy.dataSubmissionEnabled", false);
user_pref("app.update.auto", false);
`

// bidi is a connection to Firefox that speaks WebDriver BiDi.
type bidi struct {
	conn net.Conn
	note func(context, line string)

	mu      sync.Mutex
	id      int
	waiting map[int]chan<- bidiMessage
}

// bidiMessage is a response or an event.
type bidiMessage struct {
	ID             int             `json:"id"`
	Method         string          `json:"method"`
	Result         json.RawMessage `json:"result"`
	Params         json.RawMessage `json:"params"`
	Error, Message string
}

type object = map[string]any

// call sends a command, and unpacks its result into out if that is not nil.
func (c *bidi) call(method string, params object, out any) error {
	done := make(chan bidiMessage, 1)
	c.mu.Lock()
	c.id++
	c.waiting[c.id] = done
	text, err := json.Marshal(object{"id": c.id, "method": method, "params": params})
	err = cmp.Or(err, wsutil.WriteClientText(c.conn, text))
	c.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case m := <-done:
		if m.Error != "" {
			return fmt.Errorf("%s: %s: %s", method, m.Error, m.Message)
		}
		if out == nil {
			return nil
		}
		return json.Unmarshal(m.Result, out)
	case <-time.After(patience):
		return fmt.Errorf("%s: firefox does not answer", method)
	}
}

// receive reads until Firefox has gone.
func (c *bidi) receive() {
	for {
		text, err := wsutil.ReadServerText(c.conn)
		if err != nil {
			return
		}
		var m bidiMessage
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		if m.Method == "log.entryAdded" {
			var entry struct {
				Level, Text string
				Source      struct{ Context string }
			}
			_ = json.Unmarshal(m.Params, &entry) // what it cannot read is empty
			c.note(entry.Source.Context, entry.Level+": "+entry.Text)
		}
		c.mu.Lock()
		if done := c.waiting[m.ID]; done != nil {
			delete(c.waiting, m.ID)
			done <- m
		}
		c.mu.Unlock()
	}
}

// firefoxTab drives a tab of Firefox.
type firefoxTab struct {
	*bidi
	context string
	tabs    map[string]*tab
	mu      *sync.Mutex
}

// firefox starts Firefox, and returns its tab.
func firefox(t *testing.T) *tab {
	t.Helper()
	conn := dialFirefox(t, find(t, "firefox-esr"))
	f := &firefoxTab{tabs: map[string]*tab{}, mu: new(sync.Mutex)}
	f.bidi = &bidi{conn: conn, waiting: map[int]chan<- bidiMessage{}, note: func(context, line string) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if b := f.tabs[context]; b != nil {
			b.note(line)
		}
	}}
	go f.receive()
	require.NoError(t, f.call("session.new", object{"capabilities": object{}}, nil))
	t.Cleanup(func() { _ = f.call("browser.close", object{}, nil) })
	require.NoError(t, f.call("session.subscribe", object{"events": []string{"log.entryAdded"}}, nil))
	return f.another(t)
}

var endpoint = regexp.MustCompile(`ws://\S+`)

// dialFirefox starts Firefox with a profile of its own, and connects to it.
func dialFirefox(t *testing.T, path string) net.Conn {
	t.Helper()
	profile := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(profile, "user.js"), []byte(preferences), 0o600))
	cmd := exec.Command(path, "--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0")
	cmd.Env = append(os.Environ(), "HOME="+profile)
	output, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	found := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if url := endpoint.FindString(lines.Text()); url != "" {
				found <- url
			}
		}
	}()
	t.Cleanup(func() { // after browser.close
		select {
		case <-read: // by none of its processes any more: the profile can be removed
		case <-time.After(patience):
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
	})
	select {
	case url := <-found:
		conn, _, _, err := ws.Dial(context.Background(), url+"/session")
		require.NoError(t, err)
		return conn // Firefox closes it
	case <-time.After(patience):
		t.Fatal("firefox does not say where it listens")
		return nil
	}
}

// another opens a tab of the same browser. Pages in different windows are all shown, so all draw.
func (f *firefoxTab) another(t *testing.T) *tab {
	t.Helper()
	var made struct{ Context string }
	require.NoError(t, f.call("browsingContext.create", object{"type": "window"}, &made))
	b := &tab{t: t, driver: &firefoxTab{bidi: f.bidi, context: made.Context, tabs: f.tabs, mu: f.mu}}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tabs[made.Context] = b
	return b
}

func (f *firefoxTab) open(url string) error {
	return f.call("browsingContext.navigate", object{"context": f.context, "url": url, "wait": "complete"}, nil)
}

func (f *firefoxTab) evaluate(expression string) ([]byte, error) {
	var got struct {
		Type             string
		Result           struct{ Value string }
		ExceptionDetails struct{ Text string }
	}
	err := f.call("script.evaluate", object{
		"expression":   "(async () => JSON.stringify(await (" + expression + ")))()",
		"target":       object{"context": f.context},
		"awaitPromise": true,
	}, &got)
	if err == nil && got.Type != "success" {
		err = errors.New(got.ExceptionDetails.Text)
	}
	return []byte(got.Result.Value), err
}

func (f *firefoxTab) click(selector string) error {
	_, err := f.evaluate(fmt.Sprintf("document.querySelector(%q).click()", selector))
	return err
}

func (f *firefoxTab) atStart(script string) error {
	return f.call("script.addPreloadScript", object{"functionDeclaration": "() => {" + script + "}"}, nil)
}

func (f *firefoxTab) capture() ([]byte, error) {
	var got struct{ Data []byte } // base64
	err := f.call("browsingContext.captureScreenshot", object{"context": f.context}, &got)
	return got.Data, err
}
