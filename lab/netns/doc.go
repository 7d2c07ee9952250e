// Package netns makes network namespaces and configures them: bridges, addresses' parameters, token buckets,
// offload features, and hooks for BPF programs.
//
// A [Namespace] has a netlink handle for requests, and [Namespace.Do] for everything else: it moves the calling
// goroutine's thread into the namespace and back. A thread that cannot be moved back is never used again.
//
// If the kernel refuses a request as unknown or not permitted, the error is a [MissingError], so that a test can skip
// and name the missing feature.
package netns
