package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/server"
	"sluice/server/qlogs"
)

// qlogFlags are the flags of sluice relay about qlogs.
type qlogFlags struct {
	qlogs.Config
	sizeMiB int
	match   []string

	directory *qlogs.Directory // set by open; nil without --qlog
}

func (f *qlogFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Path, "qlog", "",
		"`directory` for qlogs, for qvis: the QUIC, HTTP/3 and MoQ events of connections, without tokens, keys and "+
			"payload")
	flags.StringSliceVar(&f.match, "qlog-match", nil,
		"`addresses`, networks and paths whose connections have a qlog, such as 192.0.2.7, 10.0.0.0/8 or /live, with "+
			"the paths below it, and a share of these connections, such as 1% (default: all)")
	flags.IntVar(&f.sizeMiB, "qlog-size", 256, "keep at most this many `MiB` of qlogs; the oldest files go")
	flags.IntVar(&f.Sessions, "qlog-sessions", 16, "largest `number` of connections that have a qlog at a time")
}

func (f *qlogFlags) check() error {
	_, err := parseMatch(f.match)
	return cmp.Or(err,
		bounds.Check("--qlog-sessions", f.Sessions, 1, 1024),
		bounds.Check("--qlog-size", f.sizeMiB, f.Sessions, maxMiB))
}

// open has a server write qlogs.
func (f *qlogFlags) open(c *server.Config) (err error) {
	if f.Path == "" {
		return nil
	}
	f.Size = int64(f.sizeMiB) << 20
	if f.Match, err = parseMatch(f.match); err == nil {
		f.directory, err = qlogs.Open(f.Config)
	}
	if err != nil {
		return cli.AsUsage(fmt.Errorf("--qlog: %w", err))
	}
	c.Transport.Inspection.Trace, c.Upstream.Transport.Inspection.Trace = f.directory.Trace, f.directory.Trace
	return nil
}

// setMatch puts another --qlog-match in force, for new connections.
func (f *qlogFlags) setMatch(flag *pflag.Flag) error {
	match, err := parseMatch(flag.Value.(pflag.SliceValue).GetSlice())
	if err == nil && f.directory != nil {
		f.directory.SetMatch(match)
	}
	return err
}

// parseMatch parses the values of --qlog-match.
func parseMatch(values []string) (m qlogs.Match, err error) {
	var networks []string
	for _, v := range values {
		percent, isShare := strings.CutSuffix(v, "%")
		switch {
		case strings.HasPrefix(v, "/"):
			m.Paths = append(m.Paths, v)
		case !isShare:
			networks = append(networks, v)
		case m.Share > 0:
			return m, fmt.Errorf("--qlog-match: %q: must be the only share", v)
		default:
			if m.Share, err = strconv.ParseFloat(percent, 64); err != nil || !(m.Share > 0 && m.Share <= 100) {
				return m, fmt.Errorf("--qlog-match: %q: must be more than 0%% and at most 100%%", v)
			}
			m.Share /= 100
		}
	}
	if m.Networks, err = parsePrefixes("--qlog-match", networks); err != nil {
		err = fmt.Errorf("%w, a path such as /live or a share such as 1%%", err)
	}
	return m, err
}
