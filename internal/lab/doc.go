// Package lab builds hosts in network namespaces of one machine, joined by links that limit, lose, delay, reorder and
// duplicate packets on request, and times packets at their devices.
package lab
