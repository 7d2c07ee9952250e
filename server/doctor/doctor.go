// Package doctor says whether a machine is fit for a relay.
//
// [Examine] runs checks, each a small function that reads a [Machine] and reports what could be better, and what is
// wrong: then something fails because of it. A finding that can be mended has a command for that. Checks that are not
// local load programs into the kernel, open ports or use the network; a relay that starts runs only the others.
package doctor

import (
	"context"
	"crypto/x509"
	"fmt"
	"net/netip"

	"sluice/transport"
)

// Verdict says how much a finding matters.
type Verdict string

// The verdicts.
const (
	Fine    Verdict = "fine"
	Better  Verdict = "better"  // it could be better
	Wrong   Verdict = "wrong"   // something fails
	Unknown Verdict = "unknown" // this process may not see it
)

// Finding is the result of a check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	Text    string  `json:"text"`
	Effect  string  `json:"effect,omitempty"` // what fails, or costs more
	Advice  string  `json:"advice,omitempty"` // a command
}

// Config is what the relay of the machine is to do.
type Config struct {
	Ports              []Port
	CertFile, KeyFile  string       // "": --dev, or --acme
	ACME               []string     // the names that --acme gets a certificate for
	FastPath           string       // auto, on or off
	LoadFastPath       func() error // loads the programs, attaches them, and takes them off
	Devices            []string     // with the listening address
	CacheBytes         uint64
	MaxSessions        uint64
	Upstreams, Cluster []string // URLs; addresses of NATS servers
	Dial               func(ctx context.Context, url string) (transport.Conn, error)
	ReadKeys           func() error // reads the keys of authorization tokens once; nil: there are none
}

// Port is where others connect.
type Port struct {
	Network string // udp or tcp
	netip.AddrPort
	Effect string // of a firewall that drops what comes
}

// check reports what it finds. If that is nothing, it returns what is fine. It returns an error for what it cannot see.
type check func(context.Context, *Machine, *report) (fine string, err error)

var checks = []struct {
	name  string
	local bool
	check check
}{
	{"kernel", true, checkKernel},
	{"fast path", false, checkFastPath},
	{"device", true, eachDevice(checkDevice)},
	{"offloads", true, eachDevice(checkOffloads)},
	{"queues", true, eachDevice(checkQueues)},
	{"buffers", true, checkBuffers},
	{"ports", false, checkPorts},
	{"firewall", true, checkFirewall},
	{"conntrack", true, checkConntrack},
	{"clock", true, checkClock},
	{"files", true, checkFiles},
	{"memory", true, checkMemory},
	{"certificate", true, checkCertificate},
	{"names", false, checkNames},
	{"keys", false, checkKeys},
	{"upstream", false, checkUpstreams},
	{"cluster", false, checkCluster},
}

// Examine returns the findings of all checks, or of the local ones, in their order. The latter trust no authority: the
// system's would take 1 MB of a relay, and a certificate of another one is not wrong.
func Examine(ctx context.Context, m *Machine, localOnly bool) []Finding {
	var r report
	if localOnly {
		m.roots = x509.NewCertPool()
	}
	for _, c := range checks {
		if c.local || !localOnly {
			r.check = c.name
			r.run(func() (string, error) { return c.check(ctx, m, &r) })
		}
	}
	return r.found
}

// report collects findings.
type report struct {
	check string // that runs
	found []Finding
}

func (r *report) add(v Verdict, effect, advice, format string, args ...any) {
	r.found = append(r.found, Finding{r.check, v, fmt.Sprintf(format, args...), effect, advice})
}

// run adds the outcome of a check that has reported nothing.
func (r *report) run(check func() (fine string, err error)) {
	before := len(r.found)
	switch text, err := check(); {
	case err != nil:
		r.add(Unknown, "", "", "%v", err)
	case len(r.found) == before && text != "":
		r.add(Fine, "", "", "%s", text)
	}
}
