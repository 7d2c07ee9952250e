package moqt

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
)

// goldenStream is all messages of messageGoldens, one after the other.
func goldenStream() (stream []byte, messages []Message) {
	for _, tc := range messageGoldens {
		stream = append(stream, unhex(tc.wire)...)
		messages = append(messages, tc.message)
	}
	return stream, messages
}

func TestReader(t *testing.T) {
	stream, messages := goldenStream()
	for name, r := range map[string]io.Reader{
		"at once":       bytes.NewReader(stream),
		"byte by byte":  iotest.OneByteReader(bytes.NewReader(stream)),
		"halves":        iotest.HalfReader(bytes.NewReader(stream)),
		"EOF with data": iotest.DataErrReader(bytes.NewReader(stream)),
	} {
		t.Run(name, func(t *testing.T) {
			reader := NewReader(r, Draft18)
			for _, want := range messages {
				got, err := reader.Read()
				require.NoError(t, err)
				require.Equal(t, want, got)
			}
			require.Zero(t, reader.Buffered())
			_, err := reader.Read()
			require.Equal(t, io.EOF, err)
		})
	}
}

// TestReaderTruncation ends the stream after every byte.
func TestReaderTruncation(t *testing.T) {
	for _, tc := range messageGoldens {
		b := unhex(tc.wire)
		for n := range b {
			_, err := NewReader(bytes.NewReader(b[:n]), Draft18).Read()
			if n == 0 {
				require.Equal(t, io.EOF, err)
			} else {
				requireCode(t, SessionProtocolViolation, err)
			}
		}
	}
}

func TestReaderErrors(t *testing.T) {
	reset := errors.New("stream reset")
	subscribe := unhex("03 0004 00 00 00 00")
	for n := range subscribe {
		_, err := NewReader(io.MultiReader(bytes.NewReader(subscribe[:n]), iotest.ErrReader(reset)), Draft18).Read()
		require.ErrorIs(t, err, reset)
	}
	// An unknown type is refused before its payload arrives.
	_, err := NewReader(io.MultiReader(bytes.NewReader(unhex("3f ffff")), iotest.ErrReader(reset)), Draft18).Read()
	requireCode(t, SessionProtocolViolation, err)
}

// TestReaderMemory checks that the buffer grows with the bytes that arrive and not with the announced length, and that
// the memory of a large message is freed before the stream ends.
func TestReaderMemory(t *testing.T) {
	reader := NewReader(bytes.NewReader(unhex("06 ffff 00")), Draft18)
	_, err := reader.Read()
	requireCode(t, SessionProtocolViolation, err)
	require.LessOrEqual(t, cap(reader.buf), 2*initialReadLen)

	large, err := AppendMessage(nil, Draft18, &Setup{Implementation: strings.Repeat("x", 60_000)})
	require.NoError(t, err)
	reader = NewReader(bytes.NewReader(append(large, unhex("10 0002 00 00")...)), Draft18)
	for range 2 {
		_, err := reader.Read()
		require.NoError(t, err)
	}
	_, err = reader.Read()
	require.Equal(t, io.EOF, err)
	require.LessOrEqual(t, cap(reader.buf), maxIdleBuffer)
}

func FuzzReader(f *testing.F) {
	streams := make([][]byte, len(Versions()))
	for _, tc := range goldens() {
		i := slices.Index(Versions(), tc.version)
		f.Add(uint8(i), unhex(tc.wire))
		streams[i] = append(streams[i], unhex(tc.wire)...)
	}
	for i, stream := range streams {
		f.Add(uint8(i), stream)
	}
	f.Fuzz(func(t *testing.T, number uint8, stream []byte) {
		defer testlimit.Start(t, len(stream), 1000)()
		v := Versions()[int(number)%len(Versions())]
		whole := NewReader(bytes.NewReader(stream), v)
		slow := NewReader(iotest.OneByteReader(bytes.NewReader(stream)), v)
		for {
			m1, err1 := whole.Read()
			m2, err2 := slow.Read()
			require.Equal(t, m1, m2)
			require.Equal(t, err1, err2)
			require.Equal(t, whole.Reference(), slow.Reference())
			if _, goesOn := errors.AsType[*MalformedTrackError](err1); err1 != nil && !goesOn {
				break
			}
		}
		require.LessOrEqual(t, cap(slow.buf), max(maxIdleBuffer, 2*len(stream)+initialReadLen))

		tolerant, strict := NewReader(bytes.NewReader(stream), v), NewReader(bytes.NewReader(stream), v)
		asked := false
		tolerant.OldParameters = func() bool { asked = true; return true }
		for {
			m1, err1 := strict.Read()
			m2, err2 := tolerant.Read()
			if asked || err2 != nil {
				require.Error(t, err1)
				break
			}
			require.Equal(t, m1, m2, "what is right is read as ever")
		}
	})
}
