// Package networks says how far networks are: a [Table] holds the latest RTTs by network prefix, and answers questions
// about them, in Go and by HTTP. Whole addresses are not kept.
package networks
