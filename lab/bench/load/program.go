package load

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"sluice/lab/bench/video"
	"sluice/player/cmaf"
)

// startTime is how long a player must have run to count as started: before there is a broadcast, it may end.
const startTime = time.Second

// program is a load generator that runs programs in place of its own clients.
type program struct{ *generator }

// start starts the program, whose log is the generator's. The program is killed when the context is done, and
// when the generator ends. ended is called when it has ended.
func (g program) start(ctx context.Context, out io.Writer, ended func(error)) (in io.WriteCloser, err error) {
	cmd := exec.CommandContext(ctx, g.Program[0], g.Program[1:]...)
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // a program is killed when the thread ends that has started it
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended(cmd.Wait())
		}
	}()
	return in, <-started
}

// publish has the program publish the video between the commands Go and Stop. The program does not tell when it is
// announced; players try until then.
func (g program) publish(ctx context.Context) error {
	init, err := cmaf.ParseInit(g.Init)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	in, err := g.start(ctx, nil, func(err error) {
		cancel(errors.Join(errors.New("the publisher has ended"), err))
		close(ended)
	})
	if err != nil {
		return err
	}
	defer func() { cancel(nil); <-ended }()
	if _, err := in.Write(g.Init); err != nil {
		return err
	}
	if err := g.out.Encode(Event{Ready: true}); err != nil {
		return err
	}
	if _, err := g.await(ctx, Go); err != nil {
		return err
	}
	track, sequence := &init.Tracks[0], uint32(0)
	done, err := feed(ctx, time.Now(), g.Mock, g.commands, func(f video.Frame, payload []byte) error {
		sequence++
		_, err := in.Write(cmaf.MakeChunk(track.ID, sequence, []cmaf.Sample{{
			DecodeTime: track.Ticks(f.Due), Duration: uint32(track.Ticks(g.Mock.Interval())), Sync: f.Object == 0,
			Data: payload,
		}}))
		return err
	})
	if err != nil {
		return err
	}
	return g.published(ctx, done)
}

// play has the program play the broadcast in all sessions, and reports as a generator with RTSP does.
func (g program) play(ctx context.Context) error {
	return g.receive(ctx, func(r *receiver) (end func(), err error) {
		return nil, g.retry(ctx, func(context.Context) error { return g.startPlayer(ctx, r) })
	})
}

// startPlayer starts the program, whose video goes to a receiver.
func (g program) startPlayer(ctx context.Context, r *receiver) error {
	read, write := io.Pipe()
	ended := make(chan error, 1)
	_, err := g.start(ctx, write, func(err error) {
		write.Close()
		ended <- err
	})
	if err != nil {
		return err
	}
	go func() {
		r.readMP4(read)
		_, _ = io.Copy(io.Discard, read) // the program goes on
	}()
	select {
	case err := <-ended:
		return errors.Join(errors.New("the player has ended"), err)
	case <-time.After(startTime):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// readMP4 takes the frames of a stream of fragmented MP4, up to the first chunk that is malformed.
func (r *receiver) readMP4(from io.Reader) {
	chunks := cmaf.NewReader(from)
	init, err := chunks.Init()
	if err != nil {
		return
	}
	for {
		chunk, err := chunks.Next()
		if err != nil {
			return
		}
		samples, err := init.Samples(chunk.Data)
		if err != nil {
			return
		}
		for _, s := range samples {
			var o object
			o.digest.Write(s.Data)
			o.Location = r.source.Frame(o.digest.Sequence()).Location
			r.take(o)
		}
	}
}
