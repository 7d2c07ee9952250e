// Package withdrawn has the list of tokens that an operator has withdrawn before they end by themselves.
//
// The relays of a cluster have one list together: each merges what the others have ([List.Merge]), in any order and
// again and again, and all come to the same list.
package withdrawn

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice/internal/bounds"
)

const (
	// MaxEntries is how many subjects a list has, at most. Each relay of a cluster tells all others of all of them.
	MaxEntries = 1024
	// MaxSubject is the length of the longest subject in bytes.
	MaxSubject = 256
	// MaxFor is for how long tokens can be withdrawn, at most.
	MaxFor = 366 * 24 * time.Hour
	// maxYear is one that entries can have: JSON and the hash have none for all times.
	maxYear = 2200
)

// ErrFull is the error of a list that has no room.
var ErrFull = fmt.Errorf("%d subjects are withdrawn, which is the limit; restore some, or change where their tokens "+
	"come from", MaxEntries)

// ErrUnknown is the error about a subject that is not withdrawn.
var ErrUnknown = errors.New("this subject is not withdrawn")

// Entry says that the tokens of a subject have no force until a time.
type Entry struct {
	Subject string    `json:"subject"` // relay.Grant.Subject
	Set     time.Time `json:"set"`     // of several entries about a subject, the latest counts
	Until   time.Time `json:"until"`
	// Restored says that the tokens have their force again: an earlier entry does not count any more.
	Restored bool `json:"restored,omitempty"`
}

// Validate returns an error if another relay cannot have made the entry.
func (e *Entry) Validate() error {
	return errors.Join(
		bounds.Check("length of subject", len(e.Subject), 1, MaxSubject),
		bounds.Check("time of withdrawal", e.Until.Sub(e.Set), 0, MaxFor+time.Hour),
		bounds.Check("year of its end", e.Until.UTC().Year(), 0, maxYear))
}

func (e *Entry) compare(o *Entry) int {
	weight := map[bool]int{true: 0, false: 1} // what withdraws is safer than what restores
	return cmp.Or(e.Set.Compare(o.Set), weight[e.Restored]-weight[o.Restored], e.Until.Compare(o.Until))
}

// hash returns a number that other entries do not have.
func (e *Entry) hash() uint64 {
	h := fnv.New64a()
	fmt.Fprint(h, e.Set.UnixNano(), " ", e.Until.UnixNano(), " ", e.Restored, " ", e.Subject)
	return h.Sum64()
}

// List is the subjects whose tokens are withdrawn. Its methods may be called on any goroutine.
type List struct {
	added func() // called after subjects were withdrawn, without locks

	mu   sync.Mutex
	of   map[string]Entry
	sum  uint64   // of the hashes of all entries, which cost too much for each message of a cluster
	tell []func() // called after Withdraw and Restore, without locks
}

// New returns an empty list, which calls added after subjects were withdrawn.
func New(added func()) *List { return &List{added: added, of: make(map[string]Entry)} }

// Has reports whether the tokens of a subject are withdrawn.
func (l *List) Has(subject string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.of[subject]
	return ok && !e.Restored && time.Now().Before(e.Until)
}

// Withdraw takes the force from all tokens of a subject, for a while.
func (l *List) Withdraw(subject string, life time.Duration) (Entry, error) {
	if err := bounds.Check("for", life, time.Second, MaxFor); err != nil {
		return Entry{}, err
	}
	e, err := l.set(subject, func(e *Entry) { e.Until = e.Set.Add(life) })
	if err == nil {
		l.added()
		l.told()
	}
	return e, err
}

// Restore is the reverse of Withdraw. The entry stays until its time is over, so that relays which hear of it later
// than of the withdrawal, or before, know which counts.
func (l *List) Restore(subject string) (Entry, error) {
	if !l.Has(subject) {
		return Entry{}, ErrUnknown
	}
	e, err := l.set(subject, func(e *Entry) { e.Restored = true })
	if err == nil {
		l.told()
	}
	return e, err
}

// OnChange has f called after each Withdraw and Restore, to tell others.
func (l *List) OnChange(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tell = append(l.tell, f)
}

// told calls those who tell others.
func (l *List) told() {
	l.mu.Lock()
	tell := l.tell
	l.mu.Unlock()
	for _, f := range tell {
		f()
	}
}

// set makes an entry from the last one about a subject. It is later than that one, whatever the clocks of relays say.
func (l *List) set(subject string, change func(*Entry)) (Entry, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now().UTC().Round(0)
	l.forgetLocked(now)
	last, known := l.of[subject]
	if !known && len(l.of) >= MaxEntries {
		return Entry{}, ErrFull
	}
	e := Entry{Subject: subject, Set: now, Until: last.Until}
	if !last.Set.Before(now) {
		e.Set = last.Set.Add(1)
	}
	change(&e)
	if err := e.Validate(); err != nil { // it is later than the last one, which somebody else has made
		return Entry{}, err
	}
	l.putLocked(e)
	return e, nil
}

// Merge takes the entries of another relay's list. When the list is full, it takes no new subjects and returns ErrFull.
func (l *List) Merge(entries []Entry) error {
	withdraws, err := l.merge(entries)
	if withdraws {
		l.added()
	}
	return err
}

func (l *List) merge(entries []Entry) (withdraws bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.forgetLocked(now)
	for _, e := range entries {
		last, known := l.of[e.Subject]
		switch {
		case !now.Before(e.Until), known && e.compare(&last) <= 0:
		case !known && len(l.of) >= MaxEntries:
			err = ErrFull
		default:
			l.putLocked(e)
			withdraws = withdraws || !e.Restored
		}
	}
	return withdraws, err
}

// All returns the entries by subject, those about restored ones too.
func (l *List) All() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(time.Now())
	all := make([]Entry, 0, len(l.of))
	for _, e := range l.of {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int { return strings.Compare(a.Subject, b.Subject) })
	return all
}

// Hash returns a number that other lists do not have; 0 for an empty list.
func (l *List) Hash() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked(time.Now())
	return l.sum
}

// putLocked replaces the entry about a subject; mu is held.
func (l *List) putLocked(e Entry) {
	if last, known := l.of[e.Subject]; known {
		l.sum ^= last.hash()
	}
	l.of[e.Subject] = e
	l.sum ^= e.hash()
}

// forgetLocked drops the entries whose time is over; mu is held.
func (l *List) forgetLocked(now time.Time) {
	for subject, e := range l.of {
		if !now.Before(e.Until) {
			delete(l.of, subject)
			l.sum ^= e.hash()
		}
	}
}
