package hook

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"sluice/auth"
	"sluice/internal/bounds"
	"sluice/internal/logs"
	"sluice/internal/webclient"
	"sluice/moqt"
	"sluice/relay"
)

// Limits of a Hook.
const (
	// DefaultTimeout is how long a peer waits for a decision. Players give up after about ten seconds.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxQueries is how many queries are under way at a time.
	DefaultMaxQueries = 64
	// MaxQueries is the largest value of Config.MaxQueries: each may be a connection of its own.
	MaxQueries = 1024
	// cacheSize is how many decisions are stored. An entry takes about 300 bytes, so all take 5 MB.
	cacheSize = 16384
	// maxQuery is the largest query in bytes. A token of 8 KiB, which is common, takes 8 KiB to 11 KiB of it.
	maxQuery = 64 << 10
	// maxAnswer is the largest answer in bytes; a usual one has 30.
	maxAnswer = 16 << 10
	// retryAfter is when a peer should repeat a request without a decision.
	retryAfter = 2 * time.Second
)

// Config is the configuration of a Hook. URL is required.
type Config struct {
	URL        string        // of the service: http or https
	Timeout    time.Duration // for a decision. Default: DefaultTimeout.
	MaxQueries int           // under way at a time. Default: DefaultMaxQueries.
	Logger     *slog.Logger  // Default: slog.Default().
}

// Hook is a relay.Authorizer that asks an HTTP service.
type Hook struct {
	cfg      Config
	client   *webclient.Client
	gate     *gate
	flights  singleflight.Group
	cache    *lru.Cache[key, decision]
	outcomes *prometheus.CounterVec
	failures *logs.Sparse
}

// key stands for a query: its SHA-256.
type key [sha256.Size]byte

// New returns a Hook. It does not ask the service yet.
func New(cfg Config) (*Hook, error) {
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultTimeout)
	cfg.MaxQueries = cmp.Or(cfg.MaxQueries, DefaultMaxQueries)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if err := bounds.Check("MaxQueries", cfg.MaxQueries, 1, MaxQueries); err != nil {
		return nil, err
	}
	client, err := webclient.New(webclient.Config{
		URL: cfg.URL, Timeout: cfg.Timeout, MaxBody: maxAnswer, MaxConns: cfg.MaxQueries,
	})
	if err != nil {
		return nil, err
	}
	if client.Plaintext() {
		cfg.Logger.Warn("tokens are sent to the authorization service without encryption; use https",
			"url", client.Name())
	}
	cache, err := lru.New[key, decision](cacheSize)
	if err != nil {
		return nil, err
	}
	return &Hook{
		cfg: cfg, client: client, gate: newGate(cfg.MaxQueries), cache: cache, outcomes: newOutcomes(),
		failures: logs.NewSparse(cfg.Logger),
	}, nil
}

// Authorize implements relay.Authorizer.
func (h *Hook) Authorize(ctx context.Context, r relay.AuthRequest) (relay.Grant, error) {
	q := newQuery(&r)
	body, err := q.encode()
	if err != nil {
		return relay.Grant{}, err
	}
	if len(body) > maxQuery {
		return relay.Grant{}, auth.Refuse(moqt.RequestUnauthorized, "the authorization tokens are too long")
	}
	d, err := h.decide(ctx, body, sourceOf(r.Remote))
	if err != nil {
		return relay.Grant{}, h.noDecision(err)
	}
	return d.apply(time.Now())
}

// decide returns the stored decision for a query, or asks the service.
func (h *Hook) decide(ctx context.Context, body []byte, source netip.Prefix) (decision, error) {
	k := key(sha256.Sum256(body))
	if d, ok := h.stored(k); ok {
		return d, nil
	}
	// Without ctx: other requests wait for the same query, and go on if the first one is cancelled.
	asked := h.flights.DoChan(string(k[:]), func() (any, error) { return h.ask(k, body, source) })
	select {
	case r := <-asked:
		d, _ := r.Val.(decision)
		return d, r.Err
	case <-ctx.Done():
		return decision{}, ctx.Err()
	}
}

// stored returns the stored decision for a query, while it is current.
func (h *Hook) stored(k key) (decision, bool) {
	d, ok := h.cache.Get(k)
	if !ok || !d.isCurrent(time.Now()) {
		return decision{}, false
	}
	h.count(outcomeCached)
	return d, true
}

// ask asks the service, and stores the decision. An equal query may have been answered since the caller's look.
func (h *Hook) ask(k key, body []byte, source netip.Prefix) (decision, error) {
	if d, ok := h.stored(k); ok {
		return d, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.cfg.Timeout)
	defer cancel()
	if err := h.gate.enter(ctx, source); err != nil {
		h.count(outcomeOf(err))
		return decision{}, err
	}
	defer h.gate.leave(source)
	a, err := h.post(ctx, body)
	if err != nil {
		h.count(outcomeOf(err))
		return decision{}, err
	}
	d := a.decide(time.Now())
	if !d.until.IsZero() {
		h.cache.Add(k, d)
	}
	if d.refused != nil {
		h.count(outcomeRefused)
	} else {
		h.count(outcomeAllowed)
	}
	return d, nil
}

// post sends a query. The statuses 401 and 403 are refusals too, without a ttl.
func (h *Hook) post(ctx context.Context, body []byte) (answer, error) {
	b, err := h.client.Post(ctx, body)
	if status, ok := errors.AsType[*webclient.StatusError](err); ok &&
		(status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden) {
		return answer{Allow: new(bool)}, nil
	}
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(b)
}

// noDecision returns the peer's error if there is no decision. The cause is for the operator.
func (h *Hook) noDecision(err error) *moqt.RequestError {
	refused := auth.Refuse(moqt.RequestInternalError, "authorization failed")
	if errors.Is(err, errOverloaded) {
		refused = auth.Refuse(moqt.RequestExcessiveLoad, "too many requests wait for authorization")
	}
	refused.RetryInterval = uint64(retryAfter.Milliseconds()) + 1
	if !errors.Is(err, context.Canceled) { // else the peer did not wait
		h.failures.Log(slog.LevelError, "no answer", "the authorization service has no answer; requests are refused",
			"url", h.client.Name(), "err", err)
	}
	return refused
}

// Close closes idle connections to the service.
func (h *Hook) Close() { h.client.Close() }

func (h *Hook) count(outcome string) { h.outcomes.WithLabelValues(outcome).Inc() }

// Describe implements prometheus.Collector.
func (h *Hook) Describe(ch chan<- *prometheus.Desc) { h.outcomes.Describe(ch) }

// Collect implements prometheus.Collector.
func (h *Hook) Collect(ch chan<- prometheus.Metric) { h.outcomes.Collect(ch) }
