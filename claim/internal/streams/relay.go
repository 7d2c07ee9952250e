package streams

import "sluice/claim/internal/check"

// logState is the state of a log, see package track.
type logState uint8

const (
	logOpen logState = iota
	logCut
	logFinished
	logReset
)

// reading is where user space is with a publisher's stream.
type reading uint8

const (
	waits reading = iota // for the first frame
	reads
	stops    // the stream has ended, or broken off
	abandons // slots that nobody has adopted
	opened   // has found a stream that is still being opened
	gone
)

// feed is a publisher's stream: how far user space has read it, and what the maps have of it.
type feed struct {
	at         reading
	came       int8 // frames that have gone up
	slot       int8 // that user space abandons
	downstream int8 // the map downstreams: the slot of the stream for the subscriber
	took       bool // it is in user space's table: the slot is the media sender's, or is being abandoned
	subgroup   bool // the map subgroups
	ended      bool // the map of ended streams
	removing   bool // the subgroup waits for a grace period
	removed    bits // runs that this awaits
	conn       connection
	leaving    bits // runs that the grace period of the connection awaits
}

// connection is whether a publisher is still there.
type connection uint8

const (
	there connection = iota
	left
	swept // what the maps have of it; another publisher may get its index, and have a stream with the same id
)

// going is how far the log goes on with B's stream.
type going uint8

const (
	withoutB going = iota
	entered        // B's stream does
	hasFirst       // object of B's, written anew
	withB          // B's bytes follow
)

// relay is the log.
type relay struct {
	log     logState
	going   going
	end     int8
	held    [size]origin
	severed [publishers]int8 // log offsets where their streams broke off
	origin  origin           // that the log goes on with, or did last
	from    int8             // log offset from which on B is the origin
	delta   int8             // log offset minus offset in B's stream
}

func (s *state) append(o origin) {
	s.relay.held[s.relay.end] = o
	s.relay.end++
}

// writes reports whether the log has a publisher's bytes, as they come.
func (s *state) writes(p int8) bool {
	return s.relay.log == logOpen && s.relay.going == [...]going{a: withoutB, b: withB}[p]
}

// brings reports whether user space reads the byte of a publisher's stream that comes next in the log.
func (s *state) brings(p int8) bool { return s.feeds[p].at == reads && s.relay.end < s.feeds[p].came }

// reader has the rules of the log and of the goroutines that read publishers' streams.
type reader struct{ model }

func (m reader) rules() []check.Rule[state] {
	rules := m.logRules()
	for p := range int8(publishers) {
		rules = append(rules, append(m.readRules(p), m.abandonRules(p)...)...)
	}
	return rules
}

// logRules go on with the log where a stream has broken off. If it is B's, user space writes the first object anew,
// because its id is relative to another object. After that the log has B's bytes.
func (m reader) logRules() []check.Rule[state] {
	follow := func(s *state) {
		s.relay.from, s.relay.origin, s.relay.delta = s.relay.end, fromB, -s.shift
		if !m.keeps("the delta comes with the origin") {
			s.relay.delta = 0
		}
	}
	storeFirst := !m.keeps("the origin is stored behind its first object")
	return []check.Rule[state]{
		check.Step("the list names another publisher, or none", "",
			func(s *state) bool { return m.world == Opening && s.listed && s.feeds[a].at > reads },
			func(s *state) { s.listed = false }),
		{Name: "B's stream goes on with the log", Next: func(s state) (next []state) {
			for shift := range int8(2) {
				if s.relay.log != logCut || s.relay.going != withoutB || !s.brings(b) {
					break
				}
				n := s
				if n.shift, n.relay.log, n.relay.going = shift, logOpen, entered; storeFirst {
					follow(&n)
				}
				next = append(next, n)
			}
			return next
		}},
		check.Step("user space writes B's first object anew", "track/input.go: forward",
			func(s *state) bool { return s.relay.going == entered },
			func(s *state) { s.relay.going = hasFirst; s.append(anew) }),
		check.Step("B's stream is the log's origin", "track/log.go: follow",
			func(s *state) bool { return s.relay.going == hasFirst },
			func(s *state) {
				if s.relay.going = withB; !storeFirst {
					follow(s)
				}
			}),
		{Name: "C's stream goes on with the log, up to its end", Next: func(s state) (next []state) {
			for s.relay.log == logCut {
				n := s
				n.relay.log, n.relay.origin = logFinished, fromC
				if next = append(next, n); s.relay.end == size {
					break
				}
				s.append(fromC)
			}
			return next
		}},
		check.Step("no other stream goes on", "track/cache.go: giveUpCuts",
			func(s *state) bool { return s.relay.log == logCut },
			func(s *state) { s.relay.log = logReset }),
	}
}

// readRules read a publisher's stream.
func (m reader) readRules(p int8) []check.Rule[state] {
	reading := func(s *state) bool { return s.feeds[p].at == reads }
	return []check.Rule[state]{
		check.Step("user space receives the stream", "fastpath/track_linux.go: register",
			func(s *state) bool { return s.feeds[p].at == waits && s.feeds[p].came > 0 },
			func(s *state) {
				f := &s.feeds[p]
				f.at, f.subgroup = reads, f.subgroup || p == a
			}),
		check.Step("user space appends a byte", "track/log.go: Append",
			func(s *state) bool { return s.writes(p) && s.brings(p) },
			func(s *state) { s.append(ofPublisher(p)) }),
		check.Step("the stream is lost before user space reads it", "",
			func(s *state) bool { return s.feeds[p].at == waits && s.feeds[p].came > 0 },
			func(s *state) { s.feeds[p].at = stops }),
		check.Step("the stream has been read", "track/log.go: Finish",
			func(s *state) bool { return reading(s) && s.writes(p) && s.relay.end == size },
			func(s *state) { s.relay.log, s.feeds[p].at = logFinished, stops }),
		check.Step("the stream breaks off", "",
			func(s *state) bool {
				begins := s.relay.log == logOpen && p == b && !s.writes(b) && s.relay.going != withoutB
				return reading(s) && !begins && !(s.writes(p) && s.relay.end == size)
			},
			func(s *state) {
				if s.feeds[p].at = stops; s.writes(p) {
					s.relay.log, s.relay.severed[p] = logCut, s.relay.end
				}
			}),
	}
}

// abandonRules give back what the forwarder has for a stream that was read.
func (m reader) abandonRules(p int8) []check.Rule[state] {
	noted := func(s *state) {
		f := &s.feeds[p]
		f.ended, f.removing, f.removed = true, true, s.running()
	}
	noteFirst := m.keeps("the end is noted before streams are abandoned")
	awaitRuns := m.keeps("streams are abandoned when no run can open one")
	abandon := m.keeps("what nobody has adopted is abandoned")
	isOpening := func(s *state) bool { return s.slots[s.feeds[p].slot].phase == opening }
	return []check.Rule[state]{
		check.Step("user space notes the end", "fastpath/publisher_linux.go: end",
			func(s *state) bool { return s.feeds[p].at == stops },
			func(s *state) {
				f := &s.feeds[p]
				if f.at = abandons; noteFirst {
					noted(s)
				}
				if m.world == Switching && (f.took || f.downstream == none) { // there is nothing to look for
					f.at, f.came = gone, 0
				}
			}),
		check.Step("user space looks for a stream to abandon", "fastpath/fastpath_linux.go: abandonUnadopted",
			func(s *state) bool { f := &s.feeds[p]; return f.at == abandons && (f.removed == 0 || !awaitRuns) },
			func(s *state) {
				f := &s.feeds[p]
				if f.at, f.came = gone, 0; f.downstream != none && !f.took && s.conn == there && abandon {
					f.at, f.slot, f.took = opened, f.downstream, true
				}
				if !noteFirst {
					noted(s)
				}
			}),
		check.Step("user space abandons it", "media/forwarder.go: abandon",
			func(s *state) bool { return s.feeds[p].at == opened && !isOpening(s) },
			func(s *state) { s.reset(s.feeds[p].slot); s.feeds[p].at, s.feeds[p].slot = gone, 0 }),
		check.Step("an opening takes too long, which is to be abandoned", "",
			func(s *state) bool { return s.feeds[p].at == opened && isOpening(s) },
			func(s *state) { s.media.late = s.feeds[p].slot; s.feeds[p].at, s.feeds[p].slot = gone, 0 }),
	}
}

// reset resets a stream whose id was taken, and gives its slot back. The peer's acknowledgment of that, which package
// packets is about, is not a step of its own.
func (s *state) reset(at int8) {
	s.slots[at] = slot{phase: closed, ended: true}
	if at != own {
		s.closing |= 1 << at
		s.awaited[at] = s.runsThat(func(r *run) bool { return r.first && r.at < claims })
	}
}
