package streams

// wrong returns which invariant a state breaks.
func wrong(s state) string {
	if s.headers > 1 {
		return "I8: a stream is opened twice"
	}
	if s.broken != kept {
		return invariants[s.broken]
	}
	if at := s.feeds[b].downstream; s.feeds[b].conn == swept && at != none && s.slots[at].phase == open {
		return "I10: a publisher with the index of B finds B's stream"
	}
	for offset := range int8(size) {
		held, sent := s.relay.held[offset], s.sent[offset]
		if held != nobody && sent != nobody && sent != held && !s.stopsBefore(offset) {
			return "I7: a byte was claimed that the log does not have"
		}
		if s.relay.log == logFinished && held == nobody && sent != nobody && !s.stopsBefore(offset) {
			return "I7: a byte was claimed beyond the end of the log"
		}
	}
	return ""
}

// stopsBefore reports whether the stream ends, with a reset, before a byte that the forwarder has claimed: it was not
// told yet that the log was severed before, or it was.
func (s *state) stopsBefore(offset int8) bool {
	d := &s.media
	told := d.at >= serves && !d.shared()
	at := s.severed()
	return at != none && offset >= at && (!told || d.until <= offset || d.reset)
}

// owes returns what must not stay so when the publishers' streams have ended, or B's has not come.
func owes(s state) string {
	if s.feeds[a].at != gone || s.feeds[b].at != gone && s.feeds[b].at != waits {
		return ""
	}
	for _, st := range s.slots {
		if st.hasID && s.conn == there {
			return "I12: a stream stays open"
		}
	}
	if s.slots[0].phase != free || s.slots[1].phase != free {
		return "I12: a slot is not given back"
	}
	if s.feeds[b].subgroup {
		return "I12: a subgroup is not forgotten"
	}
	return ""
}
