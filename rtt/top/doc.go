// Package top lays out the table of "sluice rtt top": flows or network prefixes, sorted by RTT, loss or traffic.
//
// A [Table] is updated with the flow table ([Table.UpdateFlows]) or with an interval of aggregation
// ([Table.UpdatePrefixes]), and renders lines of text. It depends on neither a terminal nor a monitor.
package top
