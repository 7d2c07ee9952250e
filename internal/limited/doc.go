// Package limited bounds how many TCP connections a server has, in all and of one source address.
package limited
