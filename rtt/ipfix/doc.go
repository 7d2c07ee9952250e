// Package ipfix sends aggregates as IPFIX records (RFC 7011), by UDP.
//
// An [Exporter] sends intervals. A record is an aggregate in an interval: its key, its traffic in both directions
// (RFC 5103), and its RTTs. Fields that IANA has no elements for have enterprise-specific ones; records before them
// tell their types and names (RFC 5610), so that collectors need no configuration.
package ipfix
