package transport

import _ "unsafe" // for linkname

// crypto/tls has no option for the order of TLS 1.3 suites. A server picks the first of these lists' suites that the
// client offers: from the first list if client and CPU seem to prefer AES, else from the second. A client offers the
// suites of a list in its order, which many servers follow. Both names are kept stable for quic-go and others
// (go.dev/issue/67401).
//
//go:linkname defaultCipherSuitesTLS13 crypto/tls.defaultCipherSuitesTLS13
var defaultCipherSuitesTLS13 []uint16

//go:linkname defaultCipherSuitesTLS13NoAES crypto/tls.defaultCipherSuitesTLS13NoAES
var defaultCipherSuitesTLS13NoAES []uint16

// The fast path knows only ChaCha20-Poly1305, so prefer it whatever the client and the CPU prefer. This holds
// for the whole process, and happens before any handshake can read the lists.
func init() { defaultCipherSuitesTLS13 = defaultCipherSuitesTLS13NoAES }
