// Package service has what the relay and the monitor do as services: an address for metrics and health checks, word to
// systemd, few privileges and little memory.
package service
