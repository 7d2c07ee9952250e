package transport

import (
	"slices"
	_ "unsafe" // for linkname
)

// crypto/tls has no option for the order of TLS 1.3 suites. A server picks the first of these lists' suites that the
// client offers: from the first list if client and CPU seem to prefer AES, else from the second. A client offers the
// suites of a list in its order, which many servers follow. Both names are kept stable for quic-go and others
// (go.dev/issue/67401).
//
//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

// stockSuites is the order of crypto/tls.
var stockSuites = slices.Clone(defaultCipherSuitesTLS13)

// The fast path knows only ChaCha20-Poly1305, so prefer it whatever the client and the CPU prefer. This holds
// for the whole process, and happens before any handshake can read the lists.
func init() { defaultCipherSuitesTLS13 = defaultCipherSuitesTLS13NoAES }

// OfferStockSuites makes this process offer and prefer suites as other programs do: AES first, if the CPU has
// instructions for it. It is for clients, and for relays without a fast path: they seal a packet with AES-128-GCM in
// less than half the time. Clients that offer ChaCha20-Poly1305 first still get that: they have no such instructions,
// or a fast path. It must be called before any handshake.
func OfferStockSuites() { defaultCipherSuitesTLS13 = slices.Clone(stockSuites) }
