package moqt

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestCodeRegistries compares every code with the registries of draft §15.10, and of the later versions.
func TestCodeRegistries(t *testing.T) {
	requireRegistry(t, sessionErrorNames, map[SessionErrorCode]string{
		0x0: "NO_ERROR", 0x1: "INTERNAL_ERROR", 0x2: "UNAUTHORIZED", 0x3: "PROTOCOL_VIOLATION",
		0x4: "INVALID_REQUEST_ID", 0x5: "DUPLICATE_TRACK_ALIAS", 0x6: "KEY_VALUE_FORMATTING_ERROR",
		0x7: "TOO_MANY_REQUESTS",
		0x8: "INVALID_PATH", 0x9: "MALFORMED_PATH", 0x10: "GOAWAY_TIMEOUT", 0x11: "CONTROL_MESSAGE_TIMEOUT",
		0x12: "DATA_STREAM_TIMEOUT", 0x13: "AUTH_TOKEN_CACHE_OVERFLOW", 0x14: "DUPLICATE_AUTH_TOKEN_ALIAS",
		0x15: "VERSION_NEGOTIATION_FAILED", 0x16: "MALFORMED_AUTH_TOKEN", 0x17: "UNKNOWN_AUTH_TOKEN_ALIAS",
		0x18: "EXPIRED_AUTH_TOKEN", 0x19: "INVALID_AUTHORITY", 0x1a: "MALFORMED_AUTHORITY",
		0x1b: "TOO_MANY_REQUEST_UPDATES",
	})
	requireRegistry(t, requestErrorNames, map[RequestErrorCode]string{
		0x0: "INTERNAL_ERROR", 0x1: "UNAUTHORIZED", 0x2: "TIMEOUT", 0x3: "NOT_SUPPORTED", 0x4: "MALFORMED_AUTH_TOKEN",
		0x5: "EXPIRED_AUTH_TOKEN", 0x6: "GOING_AWAY", 0x9: "EXCESSIVE_LOAD", 0x10: "DOES_NOT_EXIST",
		0x11: "INVALID_RANGE", 0x12: "MALFORMED_TRACK", 0x19: "DUPLICATE_SUBSCRIPTION", 0x20: "UNINTERESTED",
		0x30: "PREFIX_OVERLAP", 0x31: "NAMESPACE_TOO_LARGE", 0x32: "INVALID_JOINING_REQUEST_ID",
		0x33: "UNSUPPORTED_EXTENSION", 0x34: "REDIRECT", 0x35: "CONFLICTING_FILTERS", 0x36: "INVALID_FILTER",
	})
	requireRegistry(t, publishDoneNames, map[PublishDoneCode]string{
		0x0: "INTERNAL_ERROR", 0x1: "UNAUTHORIZED", 0x2: "TRACK_ENDED", 0x3: "SUBSCRIPTION_ENDED", 0x4: "GOING_AWAY",
		0x5: "TOO_FAR_BEHIND", 0x6: "EXPIRED", 0x8: "UPDATE_FAILED", 0x9: "EXCESSIVE_LOAD", 0x12: "MALFORMED_TRACK",
	})
	requireRegistry(t, streamResetNames, map[StreamResetCode]string{
		0x0: "INTERNAL_ERROR", 0x1: "CANCELLED", 0x2: "DELIVERY_TIMEOUT", 0x3: "SESSION_CLOSED", 0x4: "GOING_AWAY",
		0x5: "TOO_FAR_BEHIND", 0x6: "UNKNOWN_OBJECT_STATUS", 0x7: "EXPIRED_AUTH_TOKEN", 0x9: "EXCESSIVE_LOAD",
		0x12: "MALFORMED_TRACK",
	})
}

func requireRegistry[C interface {
	~uint64
	String() string
}](t *testing.T, got, want map[C]string) {
	t.Helper()
	require.Equal(t, want, got)
	for c, name := range want {
		require.Equal(t, name, c.String())
	}
	require.Equal(t, "0x9d", C(Grease(0)).String())
}

func TestGrease(t *testing.T) {
	// The values that draft §14 lists.
	require.Equal(t, uint64(0x9d), Grease(0))
	require.Equal(t, uint64(0x11c), Grease(1))
	require.Equal(t, uint64(0x3fffffffffffffde), Grease(maxGreaseN))
	require.Equal(t, uint64(0x9d), Grease(maxGreaseN+1))
}

func TestVersion(t *testing.T) {
	require.Equal(t, "moqt-18", Draft18.ALPN())
	require.Equal(t, "draft-ietf-moq-transport-18", Draft18.String())
	for _, v := range Versions() {
		got, ok := ParseALPN(v.ALPN())
		require.True(t, ok)
		require.Equal(t, v, got)
		require.NotNil(t, v.wire())
		require.NotNil(t, v.DataLayout().types())
	}
	require.Equal(t, []string{"moqt-22", "moqt-21", "moqt-20", "moqt-19", "moqt-18", "moqt-16"}, ALPNs())
	for _, alpn := range []string{"", "moqt", "moqt-17", "moqt-018", "MOQT-18", "h3"} {
		_, ok := ParseALPN(alpn)
		require.False(t, ok, alpn)
	}
	require.Panics(t, func() { Version(17).wire() })
	require.Panics(t, func() { Version(23).wire() })
	require.Panics(t, func() { DataLayout(0).types() })
}

func TestRetry(t *testing.T) {
	m := &RequestError{}
	for after, want := range map[time.Duration]uint64{
		0: 1, -time.Second: 1, time.Nanosecond: 2, time.Second: 1001, 1<<63 - 1: 9223372036856,
	} {
		m.SetRetry(after)
		require.Equal(t, want, m.RetryInterval)
	}
	require.EqualError(t, &RequestError{Code: RequestTimeout}, "request refused: TIMEOUT")
	require.EqualError(t, &RequestError{Code: 0x9d, Reason: "x"}, "request refused: 0x9d: x")
}
