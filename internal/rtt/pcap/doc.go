// Package pcap reads packets from capture files of both formats, pcap and pcapng, as Ethernet frames.
//
// A [Reader] recognises the format by the first bytes of the file. Each record goes through its format (classic or
// pcapng), which finds its time and link type, and through its link type, which replaces the link header with an
// Ethernet header.
package pcap
