package lab

import "net/netip"

// DefaultName is the name of a lab that is given none.
const DefaultName = "sluice"

// Status describes a running lab.
type Status struct {
	Name  string       `json:"name"`
	PID   int          `json:"pid"` // of the process that holds it
	Hosts []HostStatus `json:"hosts"`
}

// HostStatus describes a host.
type HostStatus struct {
	Name      string         `json:"name"`
	Namespace string         `json:"namespace"` // a path for setns(2) and nsenter(1)
	Devices   []DeviceStatus `json:"devices,omitempty"`
}

// DeviceStatus describes a device and its link.
type DeviceStatus struct {
	Name     string          `json:"name"`
	IPv4     netip.Prefix    `json:"ipv4"`
	IPv6     netip.Prefix    `json:"ipv6"`
	Up       bool            `json:"up"`
	ToHost   DirectionStatus `json:"toHost"`
	FromHost DirectionStatus `json:"fromHost"`
}

// DirectionStatus describes one direction of a link.
type DirectionStatus struct {
	Conditions Conditions `json:"conditions"`
	Stats      LinkStats  `json:"stats"`
}

// LinkStats counts packets in one direction of a link.
type LinkStats struct {
	Packets    uint64 `json:"packets"`    // entered, and are subject to the conditions
	Exempt     uint64 `json:"exempt"`     // entered, and are not: broadcast, multicast, ARP, neighbour discovery
	Lost       uint64 `json:"lost"`       // by Loss
	Marked     uint64 `json:"marked"`     // by Mark
	Duplicated uint64 `json:"duplicated"` // by Duplicate
	Reordered  uint64 `json:"reordered"`  // by Reorder
	Delayed    uint64 `json:"delayed"`    // went through user space, for Delay or Reorder
	Returned   uint64 `json:"returned"`   // Delayed packets and their duplicates that came back
	Failed     uint64 `json:"failed"`     // dropped because the kernel refused a step; expected to be 0
	QueueDrops uint64 `json:"queueDrops"` // waited longer than Queue for Rate, since Rate was last set
}

// Change is a request to change a link, for the process that holds the lab.
type Change struct {
	Host          string      `json:"host"`
	Device        string      `json:"device,omitempty"` // "" if the host has one
	ToHost        *Conditions `json:"toHost,omitempty"`
	FromHost      *Conditions `json:"fromHost,omitempty"`
	Up            *bool       `json:"up,omitempty"`
	Rebind        bool        `json:"rebind,omitempty"`
	ChangeAddress bool        `json:"changeAddress,omitempty"`
}
