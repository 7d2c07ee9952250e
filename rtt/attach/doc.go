// Package attach puts the monitor's programs on hooks of network devices.
//
// Arriving packets are seen at TC ingress, or earlier with XDP; leaving packets at TC egress. TC programs are attached
// by TCX, or by the clsact qdisc on kernels before 6.6. [FindDevices] looks devices up, [ProgramNames] says which
// programs they need, [New] attaches these, [Links.Promiscuous] makes devices take the packets of others, and
// [Links.Watch] notices devices that disappear.
package attach
