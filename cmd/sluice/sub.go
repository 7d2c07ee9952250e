package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/player/sub"
)

func newSub(env *cli.Environment) *cobra.Command {
	var f subFlags
	cmd := &cobra.Command{
		Use:   "sub [flags] --relay URL --namespace NAME --out FILE",
		Short: "Play a broadcast into a file or a pipe",
		Long: `Subscribe to the tracks of a broadcast and write them as fragmented MP4, interleaved by decode time,
for ffplay, ffmpeg and other players. Playback starts at the start of the current group.

If the video has several renditions, the relay changes between them where groups start, so that media comes in time:
each time a new init segment precedes, with the same track IDs.`,
		Example: `  # watch
  sluice sub --relay moqt://localhost:4443 --tls-disable-verify --namespace live/demo --out - | ffplay -

  # check that what arrives is what was published; start this before the publisher
  sluice sub --relay moqt://localhost:4443 --tls-disable-verify --namespace live/demo --wait 1m \
    --out /dev/null --verify testdata/clip.mp4

  # see the objects of a track, whatever they are
  sluice sub --relay https://relay.example/moq --namespace clock --raw --tracks now`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return advise(f.run(cmd, env)) },
	}
	f.register(cmd)
	return cmd
}

type subFlags struct {
	client      clientFlags
	cfg         sub.PlayerConfig
	out, verify string
	catalog     string
	display     string
	maxKbit     int
}

func (f *subFlags) register(cmd *cobra.Command) {
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "write to this `file`; - is standard output (required, except with --raw)")
	flags.StringSliceVar(&f.cfg.Tracks, "tracks", nil, "play only these `tracks`: names, video or audio")
	flags.StringVar(&f.cfg.Rendition, "rendition", "", "of tracks with the same content, play this `one`: a name, a "+
		"height such as 720p, best, least, or relay, with which the relay changes between them as the path gets "+
		"slower or faster, if it can (default: relay, but with --verify the first one, or the best one within "+
		"--max-bitrate)")
	flags.IntVar(&f.maxKbit, "max-bitrate", 0, "of tracks with the same content, play one with at most this many "+
		"`kbit/s`, or the least")
	flags.StringVar(&f.display, "display", "", "size of the display, as `WIDTHxHEIGHT`: the relay chooses no "+
		"rendition with more pixels")
	flags.StringVar(&f.catalog, "catalog", "", "`name` of the catalog track (default: .catalog, or else catalog, "+
		"or else catalog.json)")
	flags.DurationVar(&f.cfg.Duration, "duration", 0, "stop after this `duration` of media")
	flags.Uint64Var(&f.cfg.Objects, "count", 0, "stop after this `number` of objects")
	flags.Uint64Var(&f.cfg.Join, "join", 0, "start this `number` of groups before the current one")
	flags.DurationVar(&f.cfg.Wait, "wait", 0, "wait for this `duration` for a publisher, if there is none "+
		"yet; for one that has left, at least as long as --reconnect")
	flags.DurationVar(&f.cfg.Hold, "hold", 2*time.Second,
		"wait for this `duration` for missing objects when later ones have come")
	flags.StringVar(&f.verify, "verify", "",
		"compare all chunks with those of this `file`; exit with 6 if they differ or some are missing")
	flags.BoolVar(&f.cfg.Raw, "raw", false, "write a line for each object of --tracks instead of playing; "+
		"--out is standard output by default")
}

func (f *subFlags) run(cmd *cobra.Command, env *cli.Environment) (err error) {
	if err := f.check(env); err != nil {
		return err
	}
	if f.cfg.Client, f.cfg.Namespace, err = f.client.config(env); err != nil {
		return err
	}
	if f.verify != "" {
		file, err := os.Open(f.verify)
		if err != nil {
			return &sub.MediaError{Err: fmt.Errorf("--verify: %w", err)}
		}
		defer file.Close()
		f.cfg.Verify = file
	}
	out, err := f.open(env)
	if err != nil {
		return &sub.OutputError{Err: err}
	}
	f.cfg.Out = out
	result, err := f.play(cmd, env)
	if closeErr := out.Close(); err == nil && closeErr != nil {
		err = &sub.OutputError{Err: closeErr}
	}
	if !f.cfg.Raw {
		f.summary(env.Stderr, &result)
	}
	if err == nil && f.cfg.Verify != nil && !result.Verified() {
		return errDiffers
	}
	return errors.Join(err, lostTracks(&result))
}

var errDiffers = errors.New("the received media differs from the expected")

// lostTracks returns the errors that ended tracks.
func lostTracks(r *sub.Result) error {
	var errs []error
	for _, t := range r.Tracks {
		if t.Err != nil {
			errs = append(errs, fmt.Errorf("track %s: %w", t.Name, t.Err))
		}
	}
	return errors.Join(errs...)
}

// parseDisplay reads --display.
func (f *subFlags) parseDisplay() error {
	if f.display == "" {
		return nil
	}
	width, height, _ := strings.Cut(f.display, "x")
	for to, text := range map[*int]string{&f.cfg.Width: width, &f.cfg.Height: height} {
		pixels, err := strconv.ParseUint(text, 10, 16)
		if err != nil || pixels == 0 {
			return cli.Usage("--display: %s: must be WIDTHxHEIGHT in pixels, as in 1280x720", f.display)
		}
		*to = int(pixels)
	}
	return nil
}

func (f *subFlags) check(env *cli.Environment) error {
	switch {
	case f.cfg.Raw && f.out == "":
		f.out = "-"
	case f.out == "":
		return cli.Usage("--out is missing: the file to write to, or - for standard output")
	case f.out == "-" && !f.cfg.Raw && cli.IsTerminal(env.Stdout):
		return cli.Usage("--out: -: standard output is a terminal: use --out FILE, " +
			"or pipe the media into a player, as in '... --out - | ffplay -'")
	}
	if err := f.parseDisplay(); err != nil {
		return err
	}
	if f.cfg.Raw && (len(f.cfg.Tracks) == 0 || f.verify != "") {
		return cli.Usage("--raw needs the names of tracks in --tracks, and excludes --verify")
	}
	if err := bounds.AtLeast("--max-bitrate", f.maxKbit, 0); err != nil {
		return cli.AsUsage(err)
	}
	f.cfg.MaxBitrate = f.maxKbit * 1000
	if f.catalog != "" {
		f.cfg.Catalogs = []string{f.catalog}
	}
	return nil
}

// open opens the output.
func (f *subFlags) open(env *cli.Environment) (io.WriteCloser, error) {
	if f.out == "-" {
		return cli.KeepOpen(env.Stdout), nil
	}
	return os.Create(f.out)
}

func (f *subFlags) play(cmd *cobra.Command, env *cli.Environment) (sub.Result, error) {
	defer env.Status.Clear()
	return sub.Run(cmd.Context(), f.cfg, func(p sub.Progress) {
		env.Status.Show("%s played, %d objects, %s", cli.SecondsText(p.Media), p.Objects, cli.BytesText(p.Bytes))
	})
}

// summary prints how much of each track was played, and how much lost.
func (f *subFlags) summary(w io.Writer, r *sub.Result) {
	for _, t := range r.Tracks {
		fmt.Fprintf(w, "track %s: %d objects, %s, sha256 %s\n", t.Name, t.Objects, cli.BytesText(t.Bytes), t.SHA256)
		if t.Gaps+t.Late+t.Resets > 0 {
			fmt.Fprintf(w, "  %d gaps with %d or more objects lost, %d late, %d streams reset\n", t.Gaps, t.Lost,
				t.Late, t.Resets)
		}
		if t.Switches > 0 {
			fmt.Fprintf(w, "  changed to another rendition %d times\n", t.Switches)
		}
		if f.cfg.Verify != nil {
			fmt.Fprintf(w, "  verified %d chunks, %d differ, %d missing\n", t.Verified, t.Different, t.Missing)
		}
	}
	if len(r.Tracks) > 0 {
		fmt.Fprintf(w, "played %d objects, %s, %s of media\n", r.Objects(), cli.BytesText(r.Bytes()),
			cli.SecondsText(r.Media))
	}
}
