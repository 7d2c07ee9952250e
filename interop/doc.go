// Package interop tests sluice against public MoQ clients and a browser; run it with "make interop".
package interop
