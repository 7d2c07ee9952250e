package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"sluice/internal/client"
	"sluice/internal/pub"
	"sluice/internal/sub"
	"sluice/moqt"
	"sluice/transport"
)

func init() { scriptCommands["stayer"] = stayer }

// stayName is the name by which this test program is a client that keeps its session.
const stayName = "stay"

// stayer makes the program "stay" in the script's folder: see stay.
func stayer(ts *testscript.TestScript, _ bool, _ []string) {
	program, err := os.Executable()
	ts.Check(err)
	ts.Check(os.Symlink(program, ts.MkAbs(stayName)))
}

// isStay reports whether this process is such a client.
func isStay() bool { return filepath.Base(os.Args[0]) == stayName }

// stay is "stay pub URL NAMESPACE CLIP" and "stay sub URL NAMESPACE CLIP": it publishes a clip, or plays and verifies
// it, and keeps its session when the relay sends GOAWAY, as clients do that do not know of it.
func stay(args []string) error {
	if len(args) != 4 {
		return errors.New("usage: stay pub|sub URL NAMESPACE CLIP")
	}
	namespace := moqt.Namespace{args[2]}
	cfg := client.SessionConfig{
		URL: args[1], Transport: transport.ClientConfig{Insecure: true}, Dial: dialOnce(), ReconnectTimeout: time.Hour,
	}
	open := func() (io.ReadCloser, error) { return os.Open(args[3]) }
	if args[0] == "pub" {
		return pub.Run(context.Background(),
			pub.PublisherConfig{Namespace: namespace, Open: open, Wait: true, Client: cfg}, new(pub.Stats))
	}
	clip, err := open()
	if err != nil {
		return err
	}
	defer clip.Close()
	result, err := sub.Run(context.Background(), sub.PlayerConfig{
		Namespace: namespace, Out: io.Discard, Wait: 30 * time.Second, Verify: clip, Client: cfg,
	}, nil)
	for _, t := range result.Tracks {
		fmt.Printf("verified %d chunks, %d differ, %d missing\n", t.Verified, t.Different, t.Missing)
	}
	return err
}

// dialOnce returns a function that opens one connection, and fails after that.
func dialOnce() func(context.Context, string, transport.ClientConfig) (transport.Conn, error) {
	dialed := false
	return func(ctx context.Context, url string, cfg transport.ClientConfig) (transport.Conn, error) {
		if dialed {
			return nil, errors.New("it keeps its session")
		}
		dialed = true
		return transport.Dial(ctx, url, cfg)
	}
}
