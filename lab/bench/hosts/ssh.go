package hosts

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sluice/lab/bench/broker"
)

// options returns the options of all commands of ssh. Each command has a connection of its own, whatever the user's
// configuration says, and its port forwarding ends with the command. config is a file for ssh, or "" for the user's.
func options(config string) []string {
	all := []string{"-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "BatchMode=yes",
		"-o", "ExitOnForwardFailure=yes"}
	if config != "" {
		all = append(all, "-F", config)
	}
	return all
}

// machine is one machine of a bench.
type machine struct {
	options []string // of ssh
	role    broker.Role
	host    string
	home    string   // of the programs; "" before prepare
	sudo    []string // a command that becomes root, where we are not
}

// ssh returns a command of the program ssh itself.
func (m *machine) ssh(ctx context.Context, options []string, words ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "ssh", slices.Concat(m.options, options, []string{"--", m.host}, words)...)
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// command returns a command on the machine. The far shell sees each word as it is.
func (m *machine) command(ctx context.Context, options []string, words ...string) *exec.Cmd {
	return m.ssh(ctx, options, quote(words))
}

// run runs a command and returns its output.
func (m *machine) run(ctx context.Context, in io.Reader, words ...string) (string, error) {
	cmd := m.command(ctx, nil, words...)
	var out, log bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, &out, &log
	if err := cmd.Run(); err != nil {
		return "", m.failure(words[0], err, log.String())
	}
	return strings.TrimSpace(out.String()), nil
}

func (m *machine) failure(what string, err error, log string) error {
	if log = strings.TrimSpace(log); log != "" {
		err = fmt.Errorf("%w: %s", err, log)
	}
	return fmt.Errorf("%s (%s): %s: %w", m.host, m.role, what, err)
}

// asRoot returns a command that runs as root.
func (m *machine) asRoot(words ...string) []string {
	return append(m.sudo[:len(m.sudo):len(m.sudo)], words...)
}

// prepare looks at the machine and copies programs to it. "uname -sm" must print system.
func (m *machine) prepare(ctx context.Context, system string, programs ...string) error {
	found, err := m.run(ctx, nil, "uname", "-sm")
	if err != nil {
		return err
	}
	if found != system {
		return fmt.Errorf("%s (%s): the machine is %s: must be %s, for which this program was built",
			m.host, m.role, found, system)
	}
	user, err := m.run(ctx, nil, "id", "-u")
	if err != nil {
		return err
	}
	if user != "0" {
		m.sudo = []string{"sudo", "-n"}
	}
	dir, err := m.run(ctx, nil, "mktemp", "-d", "/tmp/sluice-bench-XXXXXXXX")
	if err != nil {
		return err
	}
	if !strings.HasPrefix(dir, "/tmp/sluice-bench-") {
		return fmt.Errorf("%s (%s): mktemp: %q: must be a directory", m.host, m.role, dir)
	}
	m.home = dir
	for _, p := range programs {
		if err := m.copyTo(ctx, p, path.Join(dir, filepath.Base(p))); err != nil {
			return err
		}
	}
	return nil
}

// copyTo copies a program.
func (m *machine) copyTo(ctx context.Context, from, to string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = m.run(ctx, f, "sh", "-c", "cat >"+quote([]string{to})+" && chmod 700 "+quote([]string{to}))
	return err
}

// cleanUp removes the files of prepare.
func (m *machine) cleanUp(ctx context.Context) error {
	if m.home == "" {
		return nil
	}
	_, err := m.run(ctx, nil, m.asRoot("rm", "-rf", m.home)...)
	return err
}

// quote returns words as a POSIX shell reads them.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
