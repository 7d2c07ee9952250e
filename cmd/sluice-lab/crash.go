package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab"
	"sluice/lab/bench/result"
	"sluice/player/pub"
	"sluice/transport"
)

// crashFlags are the flags of sluice-lab crash.
type crashFlags struct {
	repetitions int
	down        time.Duration
	fastPath    string
	clip        string
}

func newCrash(env *cli.Environment) *cobra.Command {
	f := new(crashFlags)
	cmd := &cobra.Command{
		Use:   "crash",
		Short: "Kill a relay, or a publisher, and measure how soon media flows again",
		Long: `Build a lab, and relay a clip from a publisher to two subscribers, one over QUIC and one over
WebTransport. Kill the relay (SIGKILL) and start it again after --down; in another run, do that to the publisher.
The table shows after what time each client has noticed that its session was lost, and after what time subscribers have
received media again, both since the kill: the median of the repetitions, and their range. The publisher uses QUIC and
WebTransport in turns. Needs root.`,
		Example: `  sudo sluice-lab crash
  sudo sluice-lab crash --down 5s --repetitions 3 --fastpath off`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env) },
	}
	flags := cmd.Flags()
	flags.IntVar(&f.repetitions, "repetitions", 5, "`number` of runs")
	flags.DurationVar(&f.down, "down", 100*time.Millisecond, "start the killed process again after this `duration`")
	flags.StringVar(&f.fastPath, "fastpath", "auto", "the relay's --fastpath: auto, on or off")
	flags.StringVar(&f.clip, "clip", "",
		"fragmented MP4 `file` to publish (default: the sample clip, testdata/clip.mp4)")
	return cmd
}

func (f *crashFlags) run(ctx context.Context, env *cli.Environment) (err error) {
	err = errors.Join(
		bounds.Check("--repetitions", f.repetitions, 1, 100),
		bounds.Check("--down", f.down, 0, time.Minute))
	if err != nil {
		return cli.AsUsage(err)
	}
	dir, err := os.MkdirTemp("", "sluice-crash-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &crashes{fastPath: f.fastPath, down: f.down, dir: dir, times: make(map[crashCell][]float64)}
	if err := c.prepare(f.clip); err != nil {
		return err
	}
	if c.stage, err = openLabStage(ctx, 1, crashSubscribers, lab.Conditions{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stage.close()) }()
	for n := range f.repetitions {
		for _, victim := range crashVictims {
			if err := c.try(ctx, victim, crashSchemes[n%len(crashSchemes)]); err != nil {
				return fmt.Errorf("%s killed: %w", victim, err)
			}
			fmt.Fprintf(env.Stdout, "%d of %d: %s killed\n", n+1, f.repetitions, victim)
		}
	}
	return c.print(env.Stdout)
}

// prepare finds the clip, and makes a certificate that outlasts the relay.
func (c *crashes) prepare(clip string) (err error) {
	if c.clip, err = (&demoFlags{clip: clip}).findClip(); err != nil {
		return err
	}
	media, err := openSource(c.clip)
	if err != nil {
		return &pub.InputError{Err: err}
	}
	for _, t := range media.init.Tracks {
		c.tracks = append(c.tracks, fmt.Sprintf("%d.m4s", t.ID))
	}
	cert, _, err := transport.DevCertificate(lab.RelayName)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return err
	}
	write := func(name, kind string, der []byte) error {
		return os.WriteFile(filepath.Join(c.dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	}
	return errors.Join(write("cert.pem", "CERTIFICATE", cert.Certificate[0]), write("key.pem", "PRIVATE KEY", key))
}

// summary returns the median of values in seconds with their range, or "-" if there are none.
func summary(values []float64) string {
	if len(values) == 0 {
		return "-"
	}
	return result.NewStatistic(values).String() + " s"
}
