package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// Elder is a process that this one, or one before it, has replaced, and that still has sessions. Its API is at a Unix
// socket of the same user.
type Elder struct {
	PID    int
	Socket string
}

// ask sends it a request of an operator, and returns its answer.
func (e Elder) ask(r *http.Request, q url.Values) (code int, text []byte, err error) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", e.Socket)
		},
	}}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, "http://relay"+r.URL.Path+"?"+q.Encode(), nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, fmt.Errorf("process %d, which was replaced, does not answer: %w", e.PID, err)
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	return resp.StatusCode, text, err
}

// forward hands a request on to the elder that it names.
func (a *API) forward(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	pid, _ := strconv.Atoi(q.Get("process"))
	all := a.elders()
	i := slices.IndexFunc(all, func(e Elder) bool { return e.PID == pid })
	if i < 0 {
		http.Error(w, fmt.Sprintf("process: %q: must be one of the processes that drain, which GET /api/sessions "+
			"lists; it may have ended", q.Get("process")), http.StatusNotFound)
		return
	}
	q.Del("process")
	code, text, err := all[i].ask(r, q)
	if refuse(w, err, http.StatusBadGateway) {
		return
	}
	if code < http.StatusBadRequest {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	_, _ = w.Write(text) // fails only if the client has gone
}

// endElsewhere ends the same sessions of the elders.
func (a *API) endElsewhere(r *http.Request) (all []EndedElsewhere, err error) {
	for _, e := range a.elders() {
		code, text, askErr := e.ask(r, r.URL.Query())
		there := EndedElsewhere{Process: e.PID}
		if askErr == nil && code == http.StatusOK {
			askErr = json.Unmarshal(text, &there)
		}
		err = errors.Join(err, askErr)
		if len(there.Ended) > 0 {
			all = append(all, there)
		}
	}
	return all, err
}
