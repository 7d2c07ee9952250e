// Package service has the parts that make the relay and the monitor services: an address for metrics and health checks,
// word to systemd, few privileges and little memory.
package service
