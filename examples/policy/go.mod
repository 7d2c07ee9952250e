module example.org/policy

go 1.26.0

require sluice v0.0.0

require (
	github.com/cilium/ebpf v0.22.0 // indirect
	github.com/quic-go/quic-go v0.65.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

// Sluice needs its patched quic-go and webtransport-go: make third_party leaves them here.
replace (
	github.com/quic-go/quic-go => ../../third_party/quic-go/src
	github.com/quic-go/webtransport-go => ../../third_party/webtransport-go/src
	sluice => ../..
)
