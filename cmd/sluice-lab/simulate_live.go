package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sluice/lab/sim/trial"
)

// Files in the directory that a process and its child share.
const (
	orderFile  = "order.json"
	resultFile = "result.json"
)

// simulateOrder is the order to a child.
type simulateOrder struct {
	Schedule         *trial.Schedule
	Pcap, Keys, Qlog string
	KeepQlog, Log    bool
}

// simulateResult is the result of a child.
type simulateResult struct {
	Hash    string
	Packets int
}

// errDiffer says that the same schedule was not the same twice.
var errDiffer = errors.New("two runs differ: the simulation depends on something besides the seed")

// mostTime is how long a schedule may take, which is 0.2 s of a processor. Nothing collects garbage meanwhile.
const mostTime = time.Minute

// errEndless says that a schedule took longer.
var errEndless = fmt.Errorf("it has not ended within %v: something goes on for ever in virtual time", mostTime)

// simulateHere carries out the order in a directory. It does not return.
func simulateHere(dir string) error {
	var o simulateOrder
	if err := readJSON(filepath.Join(dir, orderFile), &o); err != nil {
		return err
	}
	return inVirtualTime("Schedule", func(t *testing.T) error { return o.live(t, dir) })
}

// inVirtualTime calls f in the only test of this process: only tests have virtual time. It does not return.
func inVirtualTime(name string, f func(*testing.T) error) error {
	testing.Init()
	if err := flag.CommandLine.Parse(nil); err != nil {
		return err
	}
	test := testing.InternalTest{Name: name, F: func(t *testing.T) {
		if err := f(t); err != nil {
			t.Fatal(err)
		}
	}}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{test}, nil, nil)
	return nil
}

// live lives through the schedule, and writes its packets, also if it fails.
func (o *simulateOrder) live(t *testing.T, dir string) error {
	log := slog.New(slog.DiscardHandler)
	if o.Log {
		log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	record := new(trial.Record)
	defer func() {
		if err := o.write(record); err != nil {
			t.Error(err)
		}
	}()
	// A build that is neither a test nor exact cannot choose the random numbers of TLS.
	trial.Live(t, o.Schedule, trial.Options{Log: log, Record: record, Qlog: o.KeepQlog, Random: testing.Testing()})
	b, err := json.Marshal(simulateResult{record.Hash(), len(record.Packets)})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, resultFile), b, 0o600)
}

// write writes the files that are wanted.
func (o *simulateOrder) write(r *trial.Record) (err error) {
	if o.Pcap != "" {
		file, cerr := os.Create(o.Pcap)
		if cerr != nil {
			return cerr
		}
		err = errors.Join(r.WritePcap(file), file.Close())
	}
	if o.Keys != "" {
		err = errors.Join(err, os.WriteFile(o.Keys, r.Keys.Bytes(), 0o600))
	}
	if o.Qlog != "" {
		err = errors.Join(err, r.WriteQlogs(o.Qlog))
	}
	return err
}
