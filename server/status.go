package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"sluice/relay"
)

// Status describes a running relay. It is what the path /status of the admin address answers, as JSON.
type Status struct {
	// FastPath counts what the kernel has done, by reason. It is nil without the fast path.
	FastPath map[string]uint64     `json:"fast_path"`
	Sessions []relay.SessionStatus `json:"sessions"`
}

// GetStatus asks the relay whose admin address is addr for its status. It returns the JSON as well.
func GetStatus(ctx context.Context, client *http.Client, addr string) (st Status, text []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/status", nil)
	if err != nil {
		return st, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return st, nil, err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return st, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return st, nil, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	if err := json.Unmarshal(text, &st); err != nil {
		return st, nil, fmt.Errorf("%s: not the status of a relay: %w", req.URL, err)
	}
	return st, text, nil
}
