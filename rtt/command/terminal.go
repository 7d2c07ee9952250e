package command

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strings"

	"sluice/internal/cli"
)

// terminal is a screen that is drawn again and again, and its keyboard. A nil terminal is a file: tables follow each
// other.
type terminal struct {
	in, out *os.File
	restore func()
}

const (
	enterScreen = "\x1b[?1049h\x1b[?25l" // alternate screen, no cursor
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	home        = "\x1b[H"
	endOfLine   = "\x1b[K\n"
	endOfScreen = "\x1b[J"
)

// openTerminal switches to an empty screen. If there is a keyboard, keys arrive one by one.
func openTerminal(stdin io.Reader, stdout io.Writer) (*terminal, error) {
	t := &terminal{out: stdout.(*os.File), restore: func() {}}
	if in, ok := stdin.(*os.File); ok && cli.IsTerminal(in) {
		restore, err := makeRaw(in)
		if err != nil {
			return nil, err
		}
		t.in, t.restore = in, restore
	}
	fmt.Fprint(t.out, enterScreen)
	return t, nil
}

func (t *terminal) close() {
	fmt.Fprint(t.out, leaveScreen)
	t.restore()
}

// size returns the number of columns and lines.
func (t *terminal) size() (width, height int) {
	if t == nil {
		return 120, math.MaxInt
	}
	return screenSize(t.out)
}

func (t *terminal) show(w io.Writer, lines []string) {
	if t == nil {
		fmt.Fprintln(w, strings.Join(lines, "\n"))
		return
	}
	fmt.Fprint(w, home+strings.Join(lines, endOfLine)+endOfLine[:3]+endOfScreen)
}

// keys returns a channel of the keys that are pressed, or nil without a keyboard. When ctx is done a read may still be
// waiting; it ends with the process.
func (t *terminal) keys(ctx context.Context) chan byte {
	if t == nil || t.in == nil {
		return nil
	}
	keys := make(chan byte)
	go func() {
		var b [1]byte
		for {
			if n, err := t.in.Read(b[:]); n == 0 || err != nil {
				return
			}
			select {
			case keys <- b[0]:
			case <-ctx.Done():
				return
			}
		}
	}()
	return keys
}
