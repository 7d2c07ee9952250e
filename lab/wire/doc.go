// Package wire delays and reorders packets in user space: a TAP device, and one thread that reads frames from it and
// writes them back when they are due. It serves kernels without netem.
//
// A BPF program of the lab sends a frame to the device with a header in front: when the frame entered its link, the
// lane (one direction of one link), and whether it is to be reordered. The thread puts the frame into a delay line
// and replaces the header by a VLAN tag with the lane, from which another BPF program reads where the frame goes on.
// The delay counts from the time in the header, so a late wake-up of the thread does not add to it. A reordered frame
// is held until enough frames of its lane have left, or until it has waited for its hold.
package wire
