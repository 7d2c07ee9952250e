package clitest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

var commands = map[string]Command{
	"await": await, "get": get, "shows": shows, "exits": exits, "term": term, "hangup": hangup, "grown": grown,
	"says": says, "cutclip": cutClip, "streams": streams,
}

// await [ADDRESS] waits until the relay at $ADMIN, or at ADDRESS, is ready; "! await" waits until it is not.
func await(ts *testscript.TestScript, neg bool, args []string) {
	addr := ts.Getenv("ADMIN")
	if len(args) > 0 {
		addr = args[0]
	}
	eventually(ts, func() (bool, string) {
		resp, err := http.Get("http://" + addr + "/readyz")
		if err != nil {
			return false, fmt.Sprintf("no change in /readyz: %v", err)
		}
		_ = resp.Body.Close()
		return (resp.StatusCode == http.StatusOK) != neg, "no change in /readyz: " + resp.Status
	})
}

// eventually waits until a condition holds. After a minute the script fails with the text that holds returns.
func eventually(ts *testscript.TestScript, holds func() (bool, string)) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		ok, otherwise := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s", otherwise)
		}
	}
}

// get PATH FILE saves the answer of the admin address. "! get" expects another status than 200.
func get(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: get PATH FILE")
	}
	resp, err := http.Get("http://" + ts.Getenv("ADMIN") + args[0])
	ts.Check(err)
	defer resp.Body.Close()
	if ok := resp.StatusCode == http.StatusOK; ok == neg {
		ts.Fatalf("%s: %s", args[0], resp.Status)
	}
	f, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	_, err = io.Copy(f, resp.Body)
	ts.Check(errors.Join(err, f.Close()))
}

// shows PATH PATTERN waits until the answer of the admin address matches a regular expression; "! shows" until it does
// not.
func shows(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: shows PATH PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		resp, err := http.Get("http://" + ts.Getenv("ADMIN") + args[0])
		ts.Check(err)
		text, err := io.ReadAll(resp.Body)
		ts.Check(errors.Join(err, resp.Body.Close()))
		return pattern.Match(text) != neg, fmt.Sprintf("%s is\n%s", args[0], text)
	})
}

// streams PATH PATTERN waits until a line that the admin address streams matches a regular expression.
func streams(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: streams PATH PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Get("http://" + ts.Getenv("ADMIN") + args[0])
	ts.Check(err)
	defer resp.Body.Close()
	var last string
	for lines := bufio.NewReader(resp.Body); !pattern.MatchString(last); {
		line, err := lines.ReadString('\n')
		if err != nil {
			ts.Fatalf("%s: %v; the last line was\n%s", args[0], err, last)
		}
		if line != "\n" {
			last = line
		}
	}
}

// exits CODE COMMAND ARGS... runs a command that has to exit with that code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// term COMMAND sends SIGTERM to the background command of sluice with that name; to the first one that still runs.
func term(ts *testscript.TestScript, _ bool, args []string) { signal(ts, syscall.SIGTERM, args) }

// hangup COMMAND sends SIGHUP to it.
func hangup(ts *testscript.TestScript, _ bool, args []string) { signal(ts, syscall.SIGHUP, args) }

func signal(ts *testscript.TestScript, s syscall.Signal, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: term COMMAND|PROGRAM, hangup COMMAND|PROGRAM")
	}
	for _, cmd := range ts.BackgroundCmds() {
		named := filepath.Base(cmd.Args[0]) == args[0] || len(cmd.Args) > 1 && cmd.Args[1] == args[0]
		if named && cmd.Process.Signal(s) == nil {
			return
		}
	}
	ts.Fatalf("no %s in the background", args[0])
}

// grown FILE BYTES waits until a file has at least BYTES bytes.
func grown(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: grown FILE BYTES")
	}
	want, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		info, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil && info.Size() >= want, args[0] + " does not grow"
	})
}

// says FILE PATTERN waits until a file, which another process writes, matches a regular expression.
func says(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: says FILE PATTERN")
	}
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	eventually(ts, func() (bool, string) {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
		return pattern.Match(text), fmt.Sprintf("%s is\n%s", args[0], text)
	})
}

// cutClip is "cutclip DURATION FILE".
func cutClip(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: cutclip DURATION FILE")
	}
	duration, err := time.ParseDuration(args[0])
	ts.Check(err)
	clip, err := CutClip(duration)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), slices.Concat(clip...), 0o644))
}
