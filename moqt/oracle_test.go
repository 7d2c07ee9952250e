package moqt

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestOracle has an independent codec, the crate moqtap-codec, decode and encode again what this package encodes: all
// goldens of all versions, and as many random messages. `make interop` builds the program.
func TestOracle(t *testing.T) {
	oracle := filepath.Join(os.Getenv("SLUICE_INTEROP"), "moqt-oracle")
	if os.Getenv("SLUICE_INTEROP") == "" {
		t.Skip("needs SLUICE_INTEROP, the folder with moqt-oracle: run make interop")
	}
	var cases []golden
	for i, g := range goldens() {
		cases = append(cases, g, randomLike(g, i))
	}
	var in bytes.Buffer
	var want []string
	var sent []golden
	for _, c := range cases {
		if c.version != Draft16 && isUnknownToOracle(c.message) {
			continue
		}
		b, err := AppendMessageTo(nil, c.version, c.ref, c.message)
		require.NoError(t, err)
		fmt.Fprintf(&in, "%d %x\n", c.version, b)
		want, sent = append(want, hex.EncodeToString(b)), append(sent, c)
	}
	cmd := exec.Command(oracle)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	got := strings.Split(strings.TrimSpace(string(out)), "\n")
	require.Len(t, got, len(want))
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d %s:\n%s became\n%s", sent[i].version, sent[i].name, want[i], got[i])
		}
	}
}

// randomLike returns a random message of the version of g: in draft-16 without types of properties above 2^62-1, which
// the oracle refuses.
func randomLike(g golden, seed int) golden {
	return rapid.Custom(func(t *rapid.T) golden {
		for {
			m := anyMessage(g.version).Draw(t, "message")
			ref := Reference{RequestID: rapid.Uint64Max(maxQUICVarint).Draw(t, "request")}
			_, err := AppendMessageTo(nil, g.version, ref, m)
			if err == nil && (g.version != Draft16 || !hasLargeType(m)) {
				return golden{version: g.version, name: fmt.Sprintf("random %#v", m), message: m, ref: ref}
			}
		}
	}).Example(seed)
}

func hasLargeType(m Message) bool {
	var p Properties
	switch m := m.(type) {
	case *SubscribeOK:
		p = m.Properties
	case *Publish:
		p = m.Properties
	case *FetchOK:
		p = m.Properties
	}
	for pair := range p.All() {
		if pair.Type > maxQUICVarint {
			return true
		}
	}
	return false
}

// isUnknownToOracle reports whether the crate is known to refuse a message although the drafts allow it: it does not
// know extensions, nor that a SUBSCRIBE_TRACKS may have what a SUBSCRIBE may (draft-20 §10.19.1), and does not send
// unknown Setup Options twice.
func isUnknownToOracle(m Message) bool {
	switch m := m.(type) {
	case *Setup:
		return len(m.Unknown) > 1
	case *SubscribeTracks:
		p := m.Parameters
		return hasHops(m) || p.SubscriberPriority != nil || p.Filter != nil || p.Fill != nil ||
			p.ObjectDeliveryTimeout != nil || p.SubgroupDeliveryTimeout != nil
	}
	return hasHops(m)
}

// hasHops reports whether m has a parameter of draft-lcurley-moq-cluster.
func hasHops(m Message) bool {
	if added, ok := m.(*NamespaceAdded); ok {
		return added.Parameters != nil
	}
	p := PartsOf(m).Parameters
	return p != nil && (p.HopPath != nil || p.RouteCost != nil || p.Rendition != nil || p.Playback != nil)
}
