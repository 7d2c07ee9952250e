package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"sluice/transport"
)

// patience is how long a peer may take to answer.
const patience = 10 * time.Second

// checkUpstreams connects to each upstream relay.
func checkUpstreams(ctx context.Context, m *Machine, r *report) (string, error) {
	for _, u := range m.Upstreams {
		ctx, cancel := context.WithTimeout(ctx, patience)
		c, err := m.Dial(ctx, u)
		cancel()
		switch name := transport.WithoutQuery(u); {
		case errors.Is(err, context.DeadlineExceeded):
			r.add(Wrong, noBroadcasts, "", "%s: no answer within %v", name, patience)
		case err != nil:
			r.add(Wrong, noBroadcasts, "", "%v", err)
		default:
			r.add(Fine, "", "", "%s speaks %s", name, c.Protocol())
			_ = c.CloseWithError(0, "")
		}
	}
	return "", nil
}

const noBroadcasts = "this relay does not get its broadcasts"

// checkKeys reads the keys of authorization tokens, as a rule from a URL.
func checkKeys(_ context.Context, m *Machine, r *report) (string, error) {
	if m.ReadKeys == nil {
		return "", nil
	}
	if err := m.ReadKeys(); err != nil {
		r.add(Wrong, "all tokens are refused until there are keys", "", "%v", err)
		return "", nil
	}
	return "those of authorization tokens can be read", nil
}

// checkCluster reads how the NATS servers of other nodes introduce themselves.
func checkCluster(ctx context.Context, m *Machine, r *report) (string, error) {
	for _, addr := range m.Cluster {
		if version, err := natsVersion(ctx, addr); err != nil {
			r.add(Wrong, "this node does not find the others through it", "", "%s: %v", addr, err)
		} else {
			r.add(Fine, "", "", "%s: NATS %s", addr, version)
		}
	}
	return "", nil
}

func natsVersion(ctx context.Context, addr string) (string, error) {
	const longest = 64 << 10
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	line, err := bufio.NewReaderSize(c, longest).ReadSlice('\n')
	if err != nil {
		return "", fmt.Errorf("no greeting of a NATS server: %w", err)
	}
	text, ok := strings.CutPrefix(string(line), "INFO ")
	var info struct{ Version string }
	if !ok || json.Unmarshal([]byte(text), &info) != nil {
		return "", errors.New("not a NATS server")
	}
	return info.Version, nil
}
