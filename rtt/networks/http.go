package networks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
)

// Path is where a monitor serves its table, and MaxAnswer how many networks an answer has at most.
const (
	Path      = "/rtt"
	MaxAnswer = 1024
)

// answer is the answer to a request without an address.
type answer struct {
	Networks []Network `json:"networks"` // the nearest first
}

func parseAddress(text string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return a, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("to: %q: must be an address or a prefix such as 192.0.2.0/24", text)
	}
	return p.Addr(), nil
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // fails only if the client has gone
}

// Parse reads the answer to a request without an address.
func Parse(body []byte) ([]Network, error) {
	var a answer
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("not an answer of sluice rtt: %w", err)
	}
	return a.Networks[:min(len(a.Networks), MaxAnswer)], nil
}
