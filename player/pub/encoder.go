package pub

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/internal/bounds"
)

// Rung is one rendition of a ladder.
type Rung struct {
	Height  int // lines
	Bitrate int // bits per second
}

// MaxRungs is how many renditions a ladder may have: each takes an encoder.
const MaxRungs = 8

// bitrates are for renditions without a given one, by their heights. Others have the next higher height's.
var bitrates = []Rung{
	{144, 150_000}, {240, 350_000}, {360, 700_000}, {480, 1_200_000}, {540, 1_600_000}, {720, 2_800_000},
	{1080, 5_000_000}, {1440, 9_000_000}, {2160, 16_000_000}, {4320, 40_000_000},
}

// ParseLadder reads a list of renditions such as "1080p", or "1080p:4500" with kbit/s.
func ParseLadder(names []string) (ladder []Rung, err error) {
	for _, name := range names {
		r, err := parseRung(name)
		if err != nil {
			return nil, err
		}
		ladder = append(ladder, r)
	}
	return ladder, bounds.Check("number of renditions", len(ladder), 1, MaxRungs)
}

func parseRung(name string) (r Rung, err error) {
	height, rate, rated := strings.Cut(name, ":")
	lines, isHeight := strings.CutSuffix(height, "p")
	if r.Height, err = strconv.Atoi(lines); err != nil || !isHeight || r.Height%2 != 0 {
		return r, fmt.Errorf("%q: must be an even height such as 720p, or one with kbit/s such as 720p:3000", name)
	}
	if err = bounds.Check("height", r.Height, 16, 4320); err != nil {
		return r, err
	}
	i := slices.IndexFunc(bitrates, func(b Rung) bool { return r.Height <= b.Height })
	r.Bitrate = bitrates[i].Bitrate
	if rated {
		kbit, err := strconv.Atoi(rate)
		if err != nil {
			return r, fmt.Errorf("%q: %q must be a number of kbit/s", name, rate)
		}
		r.Bitrate = kbit * 1000
		return r, bounds.Check("kbit/s", kbit, 10, 200_000)
	}
	return r, nil
}

// Encoder makes the renditions of one input with ffmpeg, as one fragmented MP4. They have key frames at the same times.
type Encoder struct {
	Ladder []Rung
	File   string    // any that ffmpeg can read; empty: Stdin
	Stdin  io.Reader // a stream that ffmpeg can read without seeking
	Loop   bool      // File again and again

	mu      sync.Mutex
	running *encoding
}

// Open starts ffmpeg. It is as fast as the result is read.
func (e *Encoder) Open() (io.ReadCloser, error) {
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		return nil, errors.New("a ladder needs ffmpeg, which is not in the PATH: install it (apt install ffmpeg), " +
			"or give a FILE for each rendition")
	}
	r := &encoding{cmd: exec.Command(program, e.arguments()...)}
	if e.File == "" {
		r.cmd.Stdin = e.Stdin
	}
	r.cmd.Stderr, r.cmd.WaitDelay = &r.said, time.Second
	if r.out, err = r.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("ffmpeg: %w", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = r
	return r, nil
}

// Stop ends ffmpeg, if it runs.
func (e *Encoder) Stop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running != nil {
		_ = e.running.Close()
	}
}

// groupLength is how many seconds apart key frames are.
const groupLength = 2

func (e *Encoder) arguments() []string {
	args := []string{"-hide_banner", "-loglevel", "error"}
	if e.File == "" {
		args = append(args, "-i", "pipe:0")
	} else {
		if e.Loop {
			args = append(args, "-stream_loop", "-1")
		}
		args = append(args, "-nostdin", "-i", "file:"+e.File)
	}
	var splits, scales, each []string
	for i, r := range e.Ladder {
		splits = append(splits, fmt.Sprintf("[s%d]", i))
		scales = append(scales, fmt.Sprintf(`[s%d]scale=-2:min(%d\,trunc(ih/2)*2),setsar=1[v%d]`, i, r.Height, i))
		each = append(each, "-map", fmt.Sprintf("[v%d]", i),
			fmt.Sprintf("-b:v:%d", i), strconv.Itoa(r.Bitrate),
			fmt.Sprintf("-maxrate:v:%d", i), strconv.Itoa(r.Bitrate),
			fmt.Sprintf("-bufsize:v:%d", i), strconv.Itoa(r.Bitrate))
	}
	args = append(args, "-filter_complex", fmt.Sprintf("[0:v:0]split=%d%s;%s",
		len(e.Ladder), strings.Join(splits, ""), strings.Join(scales, ";")))
	args = append(append(args, each...), "-map", "0:a:0?", "-c:a", "aac", "-b:a", "128k", "-ac", "2",
		// Two frames of three are disposable. Nothing looks ahead, which would be delay.
		"-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-bf", "2", "-b_strategy", "0",
		"-x264-params", "rc-lookahead=0:sync-lookahead=0:b-pyramid=none",
		// Key frames nowhere else, whatever the pictures and the first time are.
		"-sc_threshold", "0", "-g", "100000", "-force_key_frames",
		fmt.Sprintf("expr:if(isnan(prev_forced_t),1,gte(t,prev_forced_t+%d))", groupLength),
		"-f", "mp4", "-movflags", "+cmaf+separate_moof+skip_trailer", "-frag_duration", "1", "pipe:1")
	return args
}

// encoding is a run of ffmpeg.
type encoding struct {
	cmd  *exec.Cmd
	out  io.ReadCloser
	said lastLine
	once sync.Once
	err  error
}

// Read implements [io.Reader]. At the end it returns the error of ffmpeg, if there is one.
func (r *encoding) Read(b []byte) (int, error) {
	n, err := r.out.Read(b)
	if err == nil {
		return n, nil
	}
	if err := r.wait(); err != nil {
		return n, fmt.Errorf("ffmpeg: %w", err)
	}
	return n, err
}

func (r *encoding) wait() error {
	r.once.Do(func() {
		if r.err = r.cmd.Wait(); r.err != nil {
			r.err = cmp.Or(r.said.error(), r.err)
		}
	})
	return r.err
}

// Close ends ffmpeg and waits for it.
func (r *encoding) Close() error {
	_ = r.cmd.Process.Kill() // it may have ended
	_ = r.out.Close()
	_ = r.wait() // it was killed
	return nil
}

// lastLine keeps the beginning of the last line that is written to it.
type lastLine struct {
	mu   sync.Mutex
	line []byte
}

// maxLine is how many bytes of a line are kept.
const maxLine = 500

// Write implements [io.Writer].
func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rest := range bytes.Lines(b) {
		if bytes.HasSuffix(l.line, []byte("\n")) {
			l.line = l.line[:0]
		}
		l.line = append(l.line, rest[:min(len(rest), max(maxLine-len(l.line), 0))]...)
		if bytes.HasSuffix(rest, []byte("\n")) && !bytes.HasSuffix(l.line, []byte("\n")) {
			l.line = append(l.line, '\n')
		}
	}
	return len(b), nil
}

// error returns the line as an error, or nil if there is none.
func (l *lastLine) error() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := strings.TrimSpace(string(l.line)); text != "" {
		return errors.New(text)
	}
	return nil
}
