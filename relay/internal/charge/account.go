package charge

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

// Kind is what an account stands for.
type Kind string

// Kinds of accounts.
const (
	ByAddress Kind = "address" // of sessions: see transport.SourceOf
	ByToken   Kind = "token"   // see Grant.Subject
)

// Key is the name of an account.
type Key struct {
	Kind Kind
	Name string
}

// Config is the configuration of Accounts.
type Config struct {
	Logger               *slog.Logger
	MaxRequests          int // that are open, of all addresses
	PerAddress, PerToken Quota
	Exempt               []netip.Prefix         // addresses without quotas
	Refusals             *prometheus.CounterVec // by kind and resource
}

// Accounts are the source addresses and tokens of the sessions that are open, and of the tracks that exist.
type Accounts struct {
	Config

	mu   sync.Mutex
	of   map[Key]*Account
	open int // requests of all addresses
}

// NewAccounts returns accounts that nothing uses yet.
func NewAccounts(cfg Config) *Accounts { return &Accounts{Config: cfg, of: make(map[Key]*Account)} }

// Account is what the sessions from one source address, or with one token, use together. A session has an account for
// its address, and one for each token that the Authorizer has accepted from it.
type Account struct {
	Key
	all      *Accounts
	quota    Quota
	requests *rate.Limiter     // nil: no limit
	matches  *rate.Limiter     // of prefixes with names; nil: no limit
	meters   [resources]*meter // of UploadRate and DownloadRate
	sent     atomic.Uint64     // bytes of media since the last settlement

	warning logs.Line

	used [counted]int // guarded by all.mu
}

var unlimited = Quota{-1, -1, -1, -1, -1, -1, -1, -1, -1}

// OpenAddress adds a session to the account of its source address. One of this process with itself has no quotas, and
// an account of its own.
func (s *Accounts) OpenAddress(source netip.Prefix, own bool) (*Account, *moqt.RequestError) {
	name, quota := source.String(), s.PerAddress
	if own {
		name = "own"
	}
	if own || s.IsExempt(source) {
		quota = unlimited
	}
	return s.enter(Key{ByAddress, name}, quota)
}

// IsExempt reports whether there are no quotas for a source address.
func (s *Accounts) IsExempt(source netip.Prefix) bool {
	return slices.ContainsFunc(s.Exempt, func(p netip.Prefix) bool { return p.Contains(source.Addr()) })
}

// OpenToken adds a session to the account of a token.
func (s *Accounts) OpenToken(subject string) (*Account, *moqt.RequestError) {
	return s.enter(Key{ByToken, subject}, s.PerToken)
}

func (s *Accounts) enter(key Key, quota Quota) (*Account, *moqt.RequestError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.of[key]
	if a == nil {
		a = &Account{
			Key: key, all: s, quota: quota,
			meters: [resources]*meter{
				UploadRate: newMeter(quota.Upload), DownloadRate: newMeter(quota.Download),
			},
		}
		if n := quota.RequestRate; n >= 0 {
			a.requests = rate.NewLimiter(rate.Limit(n), n*int(Burst/time.Second))
			n *= matchesOfRequest
			a.matches = rate.NewLimiter(rate.Limit(n), n*int(Burst/time.Second))
		}
	}
	if refused := a.takeLocked(SessionsOpen); refused != nil {
		return nil, refused
	}
	s.of[key] = a
	return a, nil
}

// Sweep forgets the accounts that use nothing, when their rates are as good as new: a peer does not get a new bucket by
// connecting again.
func (s *Accounts) Sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, a := range s.of {
		full := a.meters[UploadRate].isFull() && a.meters[DownloadRate].isFull() && a.hasFullRate()
		if full && a.used == [counted]int{} {
			delete(s.of, key)
		}
	}
}

func (s *Accounts) List() (list []*Account) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.of {
		list = append(list, a)
	}
	return list
}

// Count returns how many accounts have quotas.
func (s *Accounts) Count() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.of {
		if a.quota != unlimited {
			n++
		}
	}
	return n
}

func (a *Account) hasFullRate() bool {
	full := func(l *rate.Limiter) bool { return l == nil || l.Tokens() >= float64(l.Burst()) }
	return full(a.requests) && full(a.matches)
}

// Take uses one of each Resource, or none and returns why.
func (a *Account) Take(rs ...Resource) *moqt.RequestError {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	return a.takeLocked(rs...)
}

// takeLocked is Take; all.mu is held.
func (a *Account) takeLocked(rs ...Resource) *moqt.RequestError {
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

// Give returns what take has used.
func (a *Account) Give(rs ...Resource) {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	for _, r := range rs {
		a.used[r]--
	}
}

// Received counts bytes of media that the account was sent.
func (a *Account) Received(bytes uint64) {
	a.sent.Add(bytes)
	a.meters[DownloadRate].add(int(bytes))
}

// Excess returns which part of what the account was sent in the past interval was too much: 0 if there was no debt
// before, or if the debt is being paid.
func (a *Account) Excess(elapsed time.Duration) float64 {
	sent := float64(a.sent.Swap(0))
	allowed := float64(a.quota.Download) / 8 * elapsed.Seconds()
	if !a.meters[DownloadRate].inDebt() || sent <= allowed {
		return 0
	}
	return 1 - allowed/sent
}

// errTooManyRequests returns the refusal of a request beyond the limit of all.
func errTooManyRequests() *moqt.RequestError {
	e := &moqt.RequestError{Code: moqt.RequestExcessiveLoad, Reason: "the relay has no room for another request"}
	e.SetRetry(Retry)
	return e
}

// ChargeRelay counts a request of any address until it ends, unless too many are open.
func (s *Accounts) ChargeRelay(ctx context.Context) *moqt.RequestError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= s.MaxRequests {
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

func (s *Accounts) OpenRequests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// Charge takes what a request uses until it ends, unless the account has too much already of what the request receives.
func (a *Account) Charge(ctx context.Context, receives bool, rs []Resource) *moqt.RequestError {
	if receives && a.meters[DownloadRate].inDebt() {
		return a.Refuse(DownloadRate)
	}
	if refused := a.Take(rs...); refused != nil {
		return refused
	}
	context.AfterFunc(ctx, func() { a.Give(rs...) })
	return nil
}

// Refuse counts that a quota was exceeded, and returns what the peer is told.
func (a *Account) Refuse(r Resource) *moqt.RequestError {
	a.all.mu.Lock()
	defer a.all.mu.Unlock()
	return a.refuseLocked(r)
}

// refuseLocked is Refuse; all.mu is held.
func (a *Account) refuseLocked(r Resource) *moqt.RequestError {
	a.all.Refusals.WithLabelValues(string(a.Kind), r.String()).Inc()
	a.warning.Log(a.all.Logger, warnInterval, slog.LevelWarn, "a quota is used up", string(a.Kind), a.Name, "quota", r,
		"limit", *a.quota.field(r), "flag", "--quota-per-"+string(a.Kind))
	return a.Refusal(r)
}

// Refusal returns what a peer is told that has exceeded a quota.
func (a *Account) Refusal(r Resource) *moqt.RequestError {
	e := &moqt.RequestError{
		Code:   moqt.RequestExcessiveLoad,
		Reason: fmt.Sprintf("the quota of %s for this %s is used up", r, a.Kind),
	}
	e.SetRetry(Retry)
	return e
}

// Allow implements session.Pacer.
func (a *Account) Allow() bool {
	if a.requests == nil || a.requests.Allow() {
		return true
	}
	a.Refuse(RequestRate)
	return false
}

// matchesOfRequest is how many matches of prefixes with names an account may have for each request that it may make.
const matchesOfRequest = 64

// AllowMatches reports whether prefixes may match n names more now. A nil account has no limit.
func (a *Account) AllowMatches(n int) bool {
	if a == nil || a.matches == nil || n == 0 || a.matches.AllowN(time.Now(), min(n, a.matches.Burst())) {
		return true
	}
	a.Refuse(RequestRate)
	return false
}

// AwaitMatches waits until n prefixes more may match. It fails if the context is done, or would be before that.
func (a *Account) AwaitMatches(ctx context.Context, n int) error {
	if a == nil || a.matches == nil {
		return nil
	}
	return a.matches.WaitN(ctx, min(n, a.matches.Burst()))
}

// Wait implements session.Pacer.
func (a *Account) Wait(ctx context.Context) error {
	if a.requests == nil {
		return nil
	}
	return a.requests.Wait(ctx)
}

var _ session.Pacer = (*Account)(nil)
