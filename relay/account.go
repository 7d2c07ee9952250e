package relay

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"sluice/internal/logs"
	"sluice/moqt"
	"sluice/moqt/session"
)

// warnInterval is the shortest time between warnings about one account: a peer that exceeds a quota does so again and
// again.
const warnInterval = time.Minute

// accountKind is what an account stands for.
type accountKind string

const (
	addressAccount accountKind = "address" // of sessions: see transport.SourceOf
	tokenAccount   accountKind = "token"   // see Grant.Subject
)

type accountKey struct {
	kind accountKind
	name string
}

// accounts are the source addresses and tokens of the sessions that are open, and of the tracks that exist.
type accounts struct {
	log      *slog.Logger
	requests int // how many may be open in all
	quotas   map[accountKind]Quota
	exempt   []netip.Prefix // addresses without quotas
	refusals *prometheus.CounterVec

	mu   sync.Mutex
	of   map[accountKey]*account
	open int // requests of all addresses
}

// account is what the sessions from one source address, or with one token, use together. A session has an account for
// its address, and one for each token that the Authorizer has accepted from it.
type account struct {
	accountKey
	all      *accounts
	quota    Quota
	requests *rate.Limiter // nil: no limit
	upload   *meter
	download *meter
	sent     atomic.Uint64 // bytes of media since the last settlement: see downloads

	warning logs.Line

	used [counted]int // guarded by all.mu
}

// openAddress adds a session to the account of its source address.
func (s *accounts) openAddress(source netip.Prefix) (*account, *moqt.RequestError) {
	quota := s.quotas[addressAccount]
	if s.isExempt(source) {
		quota = Quota{}.withDefaults(unlimited)
	}
	return s.enter(accountKey{addressAccount, source.String()}, quota)
}

// openFor is openAddress, and for a session of this process with itself adds that to an account without quotas.
func (s *accounts) openFor(source netip.Prefix, own bool) (*account, *moqt.RequestError) {
	if own {
		return s.enter(accountKey{addressAccount, "own"}, Quota{}.withDefaults(unlimited))
	}
	return s.openAddress(source)
}

// isExempt reports whether there are no quotas for a source address.
func (s *accounts) isExempt(source netip.Prefix) bool {
	return slices.ContainsFunc(s.exempt, func(p netip.Prefix) bool { return p.Contains(source.Addr()) })
}

var unlimited = Quota{-1, -1, -1, -1, -1, -1, -1, -1}

// openToken adds a session to the account of a token.
func (s *accounts) openToken(subject string) (*account, *moqt.RequestError) {
	return s.enter(accountKey{tokenAccount, subject}, s.quotas[tokenAccount])
}

func (s *accounts) enter(key accountKey, quota Quota) (*account, *moqt.RequestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of[key]
	if a == nil {
		a = &account{
			accountKey: key, all: s, quota: quota,
			upload: newMeter(quota.Upload), download: newMeter(quota.Download),
		}
		if n := quota.RequestRate; n >= 0 {
			a.requests = rate.NewLimiter(rate.Limit(n), n*int(quotaBurst/time.Second))
		}
	}
	if refused := a.takeLocked(sessionsOpen); refused != nil {
		return nil, refused
	}
	s.of[key] = a
	return a, nil
}

// sweep forgets the accounts that use nothing, when their rates are as good as new: a peer does not get a new bucket by
// connecting again.
func (s *accounts) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.of {
		if a.used == [counted]int{} && a.upload.isFull() && a.download.isFull() && a.hasFullRate() {
			delete(s.of, key)
		}
	}
}

func (s *accounts) list() (list []*account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.of {
		list = append(list, a)
	}
	return list
}

func (s *accounts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.of)
}

func (a *account) hasFullRate() bool {
	return a.requests == nil || a.requests.Tokens() >= float64(a.requests.Burst())
}

// take uses one of each resource, or none and returns why.
func (a *account) take(rs ...resource) *moqt.RequestError {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	return a.takeLocked(rs...)
}

// takeLocked is take; all.mu is held.
func (a *account) takeLocked(rs ...resource) *moqt.RequestError {
	for _, r := range rs {
		if limit := *a.quota.field(r); limit >= 0 && a.used[r] >= limit {
			return a.refuseLocked(r)
		}
	}
	for _, r := range rs {
		a.used[r]++
	}
	return nil
}

// give returns what take has used.
func (a *account) give(rs ...resource) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	for _, r := range rs {
		a.used[r]--
	}
}

// received counts bytes of media that the account was sent.
func (a *account) received(bytes uint64) {
	a.sent.Add(bytes)
	a.download.add(int(bytes))
}

// excess returns which part of what the account was sent in the past interval was too much: 0 if there was no debt
// before, or if the debt is being paid.
func (a *account) excess(elapsed time.Duration) float64 {
	sent := float64(a.sent.Swap(0))
	allowed := float64(a.quota.Download) / 8 * elapsed.Seconds()
	if !a.download.inDebt() || sent <= allowed {
		return 0
	}
	return 1 - allowed/sent
}

// errTooManyRequests returns the refusal of a request beyond the limit of all.
func errTooManyRequests() *moqt.RequestError {
	e := &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: "the relay has no room for another request"}
	e.SetRetry(quotaRetry)
	return e
}

// chargeRelay counts a request of any address until it ends, unless too many are open.
func (s *accounts) chargeRelay(ctx context.Context) *moqt.RequestError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.requests {
		return errTooManyRequests()
	}
	s.open++
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.open--
	})
	return nil
}

func (s *accounts) openRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// charge takes what a request uses until it ends.
func (a *account) charge(ctx context.Context, rs []resource) *moqt.RequestError {
	if refused := a.take(rs...); refused != nil {
		return refused
	}
	context.AfterFunc(ctx, func() { a.give(rs...) })
	return nil
}

// refuse counts that a quota was exceeded, and returns what the peer is told.
func (a *account) refuse(r resource) *moqt.RequestError {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	return a.refuseLocked(r)
}

// refuseLocked is refuse; all.mu is held.
func (a *account) refuseLocked(r resource) *moqt.RequestError {
	a.all.refusals.WithLabelValues(string(a.kind), r.String()).Inc()
	a.warning.Log(a.all.log, warnInterval, slog.LevelWarn, "a quota is used up", string(a.kind), a.name, "quota", r,
		"limit", *a.quota.field(r), "flag", "--quota-per-"+string(a.kind))
	return a.refusal(r)
}

// refusal returns what a peer is told that has exceeded a quota.
func (a *account) refusal(r resource) *moqt.RequestError {
	e := &moqt.RequestError{
		Code:   moqt.RequestExcessiveLoad,
		Reason: fmt.Sprintf("the quota of %s for this %s is used up", r, a.kind),
	}
	e.SetRetry(quotaRetry)
	return e
}

// Allow implements session.Pacer.
func (a *account) Allow() bool {
	if a.requests == nil || a.requests.Allow() {
		return true
	}
	a.refuse(requestRate)
	return false
}

// Wait implements session.Pacer.
func (a *account) Wait(ctx context.Context) error {
	if a.requests == nil {
		return nil
	}
	return a.requests.Wait(ctx)
}

var _ session.Pacer = (*account)(nil)
