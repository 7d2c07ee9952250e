package media

import (
	"log/slog"
	"time"
)

// Config is the configuration of a [Loop]. The zero value is the default.
type Config struct {
	// Shards is how many goroutines send. Default: GOMAXPROCS, at most 8.
	Shards int
	// Arena allocates the state that a second sender may share. Default: the heap.
	Arena Arena
	// NoGSO sends every packet as a datagram of its own, even where the kernel could segment.
	NoGSO bool
	// Logger gets what an operator can do something about. Default: slog.Default().
	Logger *slog.Logger
}

// SenderConfig is the configuration of a [Sender]. The zero value is the default.
type SenderConfig struct {
	// NewController makes the congestion controller, for packets of at most mtu bytes. Default: [NewCubic].
	NewController func(mtu int) CongestionController
	// DropPolicy says what is not sent under congestion. Default: everything is sent.
	DropPolicy DropPolicy
	// Events is told what happens. Default: nobody.
	Events Events
	// MaxBehindBytes and MaxBehind are how many bytes, and how long, a subscription may lag behind before
	// [Events.TooFarBehind]. Defaults: 32 MiB and 30 s. Negative: no limit.
	MaxBehindBytes int64
	MaxBehind      time.Duration
	// MaxUDPPayloadSize caps the max_udp_payload_size that is advertised to the peer. 0: no cap.
	MaxUDPPayloadSize int
}
