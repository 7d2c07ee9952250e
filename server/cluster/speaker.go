package cluster

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"sluice/internal/logs"
)

// speaker tells the other nodes about this one. All methods expect Node.mu to be held.
type speaker struct {
	cfg      Config
	engine   Engine
	subjects subjects
	log      *logs.Sparse

	own      own
	beaten   time.Time            // when this node sent a beat last
	toldNear time.Time            // when it told last how far networks are
	asks     map[string]time.Time // when to ask nodes for snapshots
	askers   map[string]struct{}  // the nodes that have asked for one
	counts   Counts

	tellTaken time.Time // when to tell which tokens are withdrawn; zero: others know
}

func newSpeaker(cfg Config, engine Engine) speaker {
	return speaker{
		cfg: cfg, engine: engine, subjects: subjectsOf(cfg.Cluster), log: logs.NewSparse(cfg.Logger),
		own:  own{state: state{Epoch: uint64(time.Now().UnixNano())}, routes: make(map[string]struct{})},
		asks: make(map[string]time.Time), askers: make(map[string]struct{}),
	}
}

func (s *speaker) beat(now time.Time, isNew bool) {
	s.beaten = now
	s.publish(s.subjects.of(kindBeat, s.cfg.ID), beat{
		state: s.own.state, Card: s.cfg.Card(), New: isNew, Withdrawn: s.cfg.Withdrawn.Hash(),
	})
}

// tellNetworks tells how far networks are from this node, if that is known of some.
func (s *speaker) tellNetworks(now time.Time) {
	if list := s.cfg.Networks(); len(list) > 0 {
		s.toldNear = now
		s.publish(s.subjects.of(kindNear, s.cfg.ID), newNetworksMessage(s.own.state, list))
	}
}

// tellWithdrawn tells which tokens are withdrawn.
func (s *speaker) tellWithdrawn() {
	s.tellTaken = time.Time{}
	list := s.cfg.Withdrawn
	for entries := range slices.Chunk(list.All(), maxEntries) {
		s.publish(s.subjects.of(kindTaken, s.cfg.ID), withdrawnMessage{s.own.state, list.Hash(), entries})
	}
}

// compareWithdrawn looks at the hash of another node's list. It waits for a moment before it tells its own, as others
// may tell the same.
func (s *speaker) compareWithdrawn(hash uint64, now time.Time) {
	if own := s.cfg.Withdrawn.Hash(); own != hash && own != 0 && s.tellTaken.IsZero() {
		s.tellTaken = now.Add(rand.N(Beat - tick))
	}
}

// takeWithdrawn takes a part of another node's list.
func (s *speaker) takeWithdrawn(m *withdrawnMessage) error {
	err := s.cfg.Withdrawn.Merge(m.Entries)
	if s.cfg.Withdrawn.Hash() == m.Hash {
		s.tellTaken = time.Time{}
	}
	return err
}

// ask asks the nodes whose routes are not known. It waits for a moment first, as a snapshot that another node has
// asked for may come.
func (s *speaker) ask(now time.Time, members map[string]*member) {
	for _, m := range members {
		due, asked := s.asks[m.id]
		switch {
		case !m.isBehind():
			delete(s.asks, m.id)
		case !asked:
			s.asks[m.id] = now.Add(rand.N(2 * tick))
		case now.After(due):
			s.asks[m.id] = now.Add(askAgain + rand.N(tick))
			s.counts.Asks++
			s.publish(s.subjects.of(kindAsk, s.cfg.ID, m.id), s.own.state)
		}
	}
	for id := range s.asks {
		if members[id] == nil {
			delete(s.asks, id)
		}
	}
}

// answer sends snapshots to the nodes that have asked since the last tick: one for all if that would be many
// messages.
func (s *speaker) answer() {
	if len(s.askers) == 0 {
		return
	}
	parts := s.own.parts(s.cfg.Card())
	if len(s.askers)*len(parts) > maxDirect {
		s.askers = map[string]struct{}{everybody: {}}
	}
	for i := range parts {
		data := encode(&parts[i])
		for to := range s.askers {
			s.send(s.subjects.of(kindSnap, s.cfg.ID, to), data)
		}
	}
	s.counts.Snapshots += uint64(len(s.askers))
	clear(s.askers)
}

func (s *speaker) publish(subject string, m any) { s.send(subject, encode(m)) }

func (s *speaker) send(subject string, data []byte) {
	s.counts.Messages++
	if err := s.engine.Publish(subject, data); err != nil {
		s.counts.Dropped++
		s.log.Log(slog.LevelWarn, "publish", "cannot tell the cluster about this node; trying again", "err", err)
	}
}

// wants notes that a node wants a snapshot.
func (s *speaker) wants(id string) {
	if len(s.askers) < maxMembers {
		s.askers[id] = struct{}{}
	}
}
