package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/player/catalog"
	"sluice/player/pub"
)

func newPub(env *cli.Environment) *cobra.Command {
	var f pubFlags
	cmd := &cobra.Command{
		Use:   "pub [flags] --relay URL --namespace NAME [FILE...|-]",
		Short: "Publish fragmented MP4 (CMAF) at a relay",
		Long: `Publish the tracks of a fragmented MP4 file, or of a live stream on standard input (the default, or "-").

The broadcast has a track ID.m4s for each track of the file, the init segment in 0.mp4, and a catalog in three formats:
the track ".catalog" is for players of the common catalog format (draft-ietf-moq-catalogformat), such as moq-sub, the
track "catalog" for players of MSF (draft-ietf-moq-msf), and the track "catalog.json" for players of hang (moq-dev).
Each moof box and its mdat box are an object. Groups start at video key frames.

Key frames, frames that others depend on and frames that can be dropped have streams of their own in a further track
ID.layers.m4s for each video track, for players that take several streams of a group, such as sluice sub.

With --packaging loc, each frame is an object without a container (draft-ietf-moq-loc), and the tracks are ID.loc,
where the same frames have streams of their own.

Several files are renditions of the same content: the catalogs say so, groups start together, and players choose one.
Their key frames have to be at the same times. With --ladder, ffmpeg makes the renditions of any FILE that it can read,
or of standard input.`,
		Example: `  # the sample clip, again and again, to a relay on this machine
  sluice pub --relay moqt://localhost:4443 --tls-disable-verify --namespace live/demo --loop testdata/clip.mp4

  # a camera
  ffmpeg -f v4l2 -i /dev/video0 -c:v libx264 -tune zerolatency -g 50 \
    -f mp4 -movflags +cmaf+separate_moof -frag_duration 1 - |
    sluice pub --relay https://relay.example/moq --namespace live/camera

  # three renditions that ffmpeg makes
  sluice pub --relay https://relay.example/moq --namespace live/film --ladder 1080p,720p,360p --loop film.mkv

  # two renditions
  ffmpeg -i clip.mov -g 50 -keyint_min 50 -sc_threshold 0 -s 1280x720 -b:v 3M \
    -movflags +cmaf+separate_moof -frag_duration 1 720p.mp4 \
    -g 50 -keyint_min 50 -sc_threshold 0 -s 640x360 -b:v 500k -an \
    -movflags +cmaf+separate_moof -frag_duration 1 360p.mp4
  sluice pub --relay https://relay.example/moq --namespace live/clip --loop 720p.mp4 360p.mp4`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return advise(f.run(cmd, env, args)) },
	}
	f.register(cmd)
	return cmd
}

type pubFlags struct {
	client     clientFlags
	cfg        pub.PublisherConfig
	noPace     bool
	priorities pub.Priorities
	firstGroup uint64
	historyMiB int
	ladder     []string
	encoder    pub.Encoder
}

func (f *pubFlags) register(cmd *cobra.Command) {
	f.client.register(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.cfg.Loop, "loop", false, "publish the file again and again, with continuous times")
	flags.StringSliceVar(&f.ladder, "ladder", nil, "make these `renditions` of the first video track with ffmpeg: "+
		"heights such as 1080p,720p,360p, or with kbit/s such as 720p:3000; none is larger than the input")
	flags.BoolVar(&f.noPace, "no-pace", false,
		"publish as fast as the input can be read, not at the pace of its timestamps")
	flags.BoolVar(&f.cfg.Wait, "wait", false, "start the media when the first subscriber has come")
	flags.BoolVar(&f.cfg.Datagrams, "datagrams", false,
		"send audio in datagrams, which are not retransmitted")
	flags.BoolVar(&f.cfg.Publish, "publish", false,
		"also offer each track with PUBLISH, so that the relay takes it without subscribers")
	flags.StringVar(&f.cfg.Packaging, "packaging", catalog.CMAF,
		"`packaging` of media: cmaf, with a chunk in each object, or loc, with a frame in each")
	f.priorities = pub.DefaultPriorities(catalog.CMAF)
	flags.Uint8Var(&f.priorities.Audio, "audio-priority", f.priorities.Audio,
		"`priority` of audio, 0 to 255; lower numbers are sent first")
	flags.Uint8Var(&f.priorities.Key, "key-priority", f.priorities.Key,
		"`priority` of video key frames, by default 96 with --packaging loc; if it differs from --delta-priority, "+
			"they have streams of their own in all video tracks")
	flags.Uint8Var(&f.priorities.Delta, "delta-priority", f.priorities.Delta,
		"`priority` of all other video frames")
	flags.Uint8Var(&f.priorities.Disposable, "disposable-priority", f.priorities.Disposable,
		"`priority` of video frames that no other frame depends on, by default --delta-priority, or 160 with "+
			"--packaging loc; if it differs, they have streams of their own")
	flags.DurationVar(&f.cfg.ObjectTimeout, "object-timeout", 0,
		"drop objects that could not be sent within this `duration` (OBJECT_DELIVERY_TIMEOUT)")
	flags.DurationVar(&f.cfg.SubgroupTimeout, "subgroup-timeout", 0,
		"drop finished streams that were not delivered within this `duration` (SUBGROUP_DELIVERY_TIMEOUT)")
	flags.IntVar(&f.cfg.History.Groups, "history-groups", 8, "keep this `number` of groups of each track for FETCH")
	flags.IntVar(&f.historyMiB, "history-size", 64, "keep this many `MiB` of each track for FETCH")
	flags.Uint64Var(&f.firstGroup, "first-group", 0, "`id` of the first group; several publishers of one "+
		"broadcast need the same (default: the milliseconds since 1970)")
}

func (f *pubFlags) run(cmd *cobra.Command, env *cli.Environment, args []string) error {
	if err := f.complete(cmd, env, args); err != nil {
		return err
	}
	defer f.encoder.Stop()
	var stats pub.Stats
	stop := cli.Every(500*time.Millisecond, func() {
		env.Status.Show("%s published, %d objects, %s, %d subscriptions",
			cli.SecondsText(stats.Media()), stats.Objects(), cli.BytesText(stats.Bytes()), stats.Subscriptions())
	})
	start := time.Now()
	err := pub.Run(cmd.Context(), f.cfg, &stats)
	stop()
	env.Status.Clear()
	if stats.Objects() > 0 {
		fmt.Fprintf(env.Stderr, "published %d objects, %s, %s of media in %s\n",
			stats.Objects(), cli.BytesText(stats.Bytes()), cli.SecondsText(stats.Media()),
			cli.SecondsText(time.Since(start)))
	}
	return err
}

// layers returns the priorities: from flags, or else the defaults of the packaging.
func (f *pubFlags) layers(cmd *cobra.Command) pub.Priorities {
	p := pub.DefaultPriorities(f.cfg.Packaging)
	set := cmd.Flags().Changed
	if set("audio-priority") {
		p.Audio = f.priorities.Audio
	}
	if set("key-priority") {
		p.Key = f.priorities.Key
	}
	if set("delta-priority") {
		p.Delta, p.Disposable = f.priorities.Delta, f.priorities.Delta
	}
	if set("disposable-priority") {
		p.Disposable = f.priorities.Disposable
	}
	return p
}

// complete checks the flags and completes the configuration.
func (f *pubFlags) complete(cmd *cobra.Command, env *cli.Environment, args []string) (err error) {
	if f.cfg.Client, f.cfg.Namespace, err = f.client.config(env); err != nil {
		return err
	}
	f.cfg.Unpaced, f.cfg.Priorities = f.noPace, f.layers(cmd)
	if !slices.Contains(pub.Packagings, f.cfg.Packaging) {
		return cli.Usage("--packaging: %q: must be one of %s", f.cfg.Packaging, strings.Join(pub.Packagings, ", "))
	}
	err = cmp.Or(
		bounds.AtLeast("--history-groups", f.cfg.History.Groups, 1),
		bounds.AtLeast("--history-size", f.historyMiB, 1))
	if err != nil {
		return cli.AsUsage(err)
	}
	f.cfg.History.Bytes = f.historyMiB << 20
	if cmd.Flags().Changed("first-group") {
		f.cfg.FirstGroup = &f.firstGroup
	}
	if len(f.ladder) > 0 {
		if f.encoder.Ladder, err = pub.ParseLadder(f.ladder); err != nil {
			return cli.Usage("--ladder: %v", err)
		}
		if len(args) > 1 {
			return cli.Usage("--ladder makes the renditions of one input: name one FILE")
		}
	}
	if len(args) > 1 && slices.Contains(args, "-") {
		return cli.Usage("standard input cannot be one of several renditions: name a FILE for each")
	}
	if len(args) > 0 && args[0] != "-" {
		f.cfg.Open = opener(args[0])
		for _, file := range args[1:] {
			f.cfg.Renditions = append(f.cfg.Renditions, opener(file))
		}
		if len(f.ladder) > 0 {
			f.encoder.File = args[0]
			f.encode()
		}
		return nil
	}
	if f.cfg.Loop {
		return cli.Usage("--loop needs a file: standard input can be read only once")
	}
	if in, ok := env.Stdin.(io.Writer); ok && cli.IsTerminal(in) {
		return cli.Usage("no input: name a FILE, or pipe fragmented MP4 into sluice pub")
	}
	f.cfg.Open = func() (io.ReadCloser, error) { return io.NopCloser(env.Stdin), nil }
	if len(f.ladder) > 0 {
		f.encoder.Stdin = env.Stdin
		f.encode()
	}
	return nil
}

// encode makes ffmpeg the input. It also repeats a file, so that nothing starts again between two rounds.
func (f *pubFlags) encode() {
	f.encoder.Loop, f.cfg.Loop = f.cfg.Loop, false
	f.cfg.Open, f.cfg.Ladder = f.encoder.Open, true
}

func opener(file string) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return os.Open(file) }
}
