package cluster

import (
	"sluice/internal/bounds"
	"sluice/relay/withdrawn"
)

// maxEntries is how many withdrawn subjects a message has at most: with the longest subjects it stays below maxMessage.
const maxEntries = 128

// withdrawnMessage is a part of a node's list of withdrawn tokens.
type withdrawnMessage struct {
	state
	Hash    uint64            `json:"hash"` // of the whole list
	Entries []withdrawn.Entry `json:"entries"`
}

func decodeWithdrawn(b []byte) (m withdrawnMessage, err error) {
	if err := decode(b, &m); err != nil {
		return m, err
	}
	if err := bounds.Check("number of withdrawn subjects", len(m.Entries), 0, maxEntries); err != nil {
		return m, err
	}
	for i := range m.Entries {
		if err := m.Entries[i].Validate(); err != nil {
			return m, err
		}
	}
	return m, nil
}
