package alert

import (
	"log/slog"
	"time"

	"sluice/rtt/report"
)

// Type is the type of an alert's event.
type Type string

// Types.
const (
	Raised Type = "raised"
	Ended  Type = "ended"
)

// Parts of the RTTs, as [report.Prefix] has them.
const (
	PartHosts        = "hosts"         // report.Prefix.RTT
	PartPeers        = "peers"         // report.Prefix.PeerRTT
	PartOneDirection = "one-direction" // report.Prefix.OneDirection: there is nothing else where replies go another way
)

// Reasons of an end.
const (
	ReasonUsual       = "as usual"
	ReasonNotMeasured = "not measured any more"
	ReasonMonitorEnds = "the monitor ends"
)

// Alert tells that a quantile of the RTTs of an aggregate has risen, or is as usual again.
type Alert struct {
	ID   string    `json:"id"` // unique; ends with a number that counts alerts
	Type Type      `json:"type"`
	Time time.Time `json:"time"` // the end of the interval that has decided it

	Prefix    string `json:"prefix"` // or the name of a group
	Peer      string `json:"peer,omitempty"`
	Interface string `json:"interface,omitempty"`
	VLAN      uint16 `json:"vlan,omitempty"`
	InnerVLAN uint16 `json:"inner_vlan,omitempty"`
	Protocol  string `json:"protocol,omitempty"`

	Part     string        `json:"part"`
	Quantile float64       `json:"quantile"`
	RTT      time.Duration `json:"rtt_ns"` // in the last interval that was measured
	Usual    time.Duration `json:"usual_ns"`
	Since    *time.Time    `json:"since,omitempty"`  // of an end: when it was raised
	Reason   string        `json:"reason,omitempty"` // of an end
}

func newAlert(a *aggregate, quantile int, at time.Time) Alert {
	p, s := &a.prefix, &a.signals[quantile]
	return Alert{
		Type: Raised, Time: at.UTC(), Prefix: p.String(), Peer: p.Peer, Interface: p.Interface, VLAN: p.VLAN.ID,
		InnerVLAN: p.VLAN.Inner, Protocol: p.Protocol, Part: a.part, Quantile: quantiles[quantile], RTT: s.last,
		Usual: s.usualValue(),
	}
}

// Label returns the subject of the alert.
func (a *Alert) Label() string {
	p := report.Prefix{
		Group: a.Prefix, Peer: a.Peer, Interface: a.Interface, VLAN: report.VLAN{ID: a.VLAN, Inner: a.InnerVLAN},
		Protocol: a.Protocol,
	}
	return p.Label()
}

// log writes it as a line.
func (a *Alert) log(log *slog.Logger) {
	args := []any{
		"prefix", a.Label(), "part", a.Part, "quantile", a.Quantile, "rtt", a.RTT.Round(time.Microsecond),
		"usual", a.Usual.Round(time.Microsecond),
	}
	if a.Type == Raised {
		log.Warn("RTTs have risen", args...)
		return
	}
	args = append(args, "reason", a.Reason, "lasted", a.Time.Sub(*a.Since).Round(time.Second))
	log.Info("an alert has ended", args...)
}
