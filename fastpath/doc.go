// Package fastpath loads and feeds the kernel programs that forward media packets to subscribers, still encrypted.
package fastpath
