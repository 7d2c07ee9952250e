// Package api is what an operator does with a running relay over HTTP: list its sessions, end some, withdraw tokens,
// and take it out of service. The commands sluice relay sessions, kick, withdraw and drain use it.
//
// Each request is a [route], and the API describes itself by these: GET /api/openapi.json.
package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"strings"

	"sluice/relay"
	"sluice/relay/withdrawn"
)

// API answers requests of an operator.
type API struct {
	operator relay.Operator
	elders   func() []Elder
	drain    func()
	log      *slog.Logger
}

// New returns the handler of all paths below /api. elders returns the processes whose sessions are listed and ended,
// too. drain takes the relay out of service; it returns at once, and may be called again. Pages of other sites must not
// make browsers send requests that change something; who else may ask is for the caller to decide.
func New(o relay.Operator, elders func() []Elder, drain func(), log *slog.Logger) http.Handler {
	a, mux := &API{o, elders, drain, log}, http.NewServeMux()
	for _, r := range routes() {
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) {
			if strings.HasPrefix(r.path, "/api/sessions") && req.URL.Query().Get("process") != "" {
				a.forward(w, req)
			} else {
				r.serve(a, w, req, queryOf(req, r.names()...))
			}
		})
	}
	guard := http.NewCrossOriginProtection()
	guard.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "a page of another site must not change anything at the relay", http.StatusForbidden)
	}))
	return guard.Handler(mux)
}

func (a *API) describe(w http.ResponseWriter, _ *http.Request, _ *query) {
	answer(w, http.StatusOK, document())
}

func (a *API) list(w http.ResponseWriter, _ *http.Request, q *query) {
	after, limit := q.number("after", 0, math.MaxUint64), q.number("limit", 1, maxPage)
	by := q.selector()
	if limit == 0 {
		limit = defaultPage
	}
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	p := page(a.operator.Sessions(by), after, int(limit))
	for _, e := range a.elders() {
		p.Draining = append(p.Draining, e.PID)
	}
	answer(w, http.StatusOK, p)
}

func (a *API) endSome(w http.ResponseWriter, r *http.Request, q *query) {
	by := q.selector()
	if by == (relay.Selector{}) {
		q.fail(errors.New("say which sessions: subject, prefix or role; prefix=0.0.0.0/0 is all of IPv4, ::/0 of IPv6"))
	}
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	ended := a.end(by, r)
	var err error
	if ended.Elsewhere, err = a.endElsewhere(r); !refuse(w, err, http.StatusBadGateway) {
		answer(w, http.StatusOK, ended)
	}
}

func (a *API) endOne(w http.ResponseWriter, r *http.Request, q *query) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		q.fail(fmt.Errorf("id: %q: must be a number, as GET /api/sessions lists it", r.PathValue("id")))
	}
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	ended := a.end(relay.Selector{ID: id}, r)
	if len(ended.Ended) == 0 {
		http.Error(w, fmt.Sprintf("there is no session %d; it may have ended", id), http.StatusNotFound)
		return
	}
	answer(w, http.StatusOK, ended)
}

func (a *API) end(by relay.Selector, r *http.Request) Ended {
	ids := a.operator.Kick(by)
	if len(ids) == 0 {
		return Ended{Ended: []uint64{}}
	}
	a.log.Info("an operator has ended sessions", "which", by.String(), "sessions", len(ids), "from", r.RemoteAddr)
	return Ended{Ended: ids}
}

func (a *API) listWithdrawn(w http.ResponseWriter, _ *http.Request, q *query) {
	if !refuse(w, q.err, http.StatusBadRequest) {
		answer(w, http.StatusOK, Withdrawals{a.operator.Withdrawn().All()})
	}
}

func (a *API) withdraw(w http.ResponseWriter, r *http.Request, q *query) {
	life := q.life()
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	e, err := a.operator.Withdrawn().Withdraw(q.Get("subject"), life)
	code := http.StatusBadRequest
	if errors.Is(err, withdrawn.ErrFull) {
		code = http.StatusConflict
	}
	if refuse(w, err, code) {
		return
	}
	a.log.Info("an operator has withdrawn tokens", "subject", e.Subject, "until", e.Until, "from", r.RemoteAddr)
	answer(w, http.StatusOK, e)
}

func (a *API) restore(w http.ResponseWriter, r *http.Request, q *query) {
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	e, err := a.operator.Withdrawn().Restore(q.Get("subject"))
	if refuse(w, err, http.StatusNotFound) {
		return
	}
	a.log.Info("an operator has restored tokens", "subject", e.Subject, "from", r.RemoteAddr)
	answer(w, http.StatusOK, e)
}

func (a *API) goAway(w http.ResponseWriter, r *http.Request, q *query) {
	if refuse(w, q.err, http.StatusBadRequest) {
		return
	}
	a.log.Info("an operator drains the relay", "from", r.RemoteAddr)
	a.drain()
	leave := 0
	for _, s := range a.operator.Sessions(relay.Selector{}) {
		if s.Upstream == "" {
			leave++
		}
	}
	answer(w, http.StatusAccepted, Draining{leave})
}

// refuse answers with an error, if there is one.
func refuse(w http.ResponseWriter, err error, code int) bool {
	if err != nil {
		http.Error(w, err.Error(), code)
	}
	return err != nil
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(v) // fails only if the client has gone
}
