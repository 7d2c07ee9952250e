package moqt

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// laterVersions have a stream for each request: all but draft-16, which has tests of its own.
func laterVersions() []Version { return Versions()[:len(Versions())-1] }

// unhex decodes hexadecimal digits and ignores spaces between them.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// requireCode checks that err closes the session with code.
func requireCode(t require.TestingT, code SessionErrorCode, err error) {
	if h, ok := t.(*testing.T); ok {
		h.Helper()
	}
	var protocol *ProtocolError
	require.ErrorAs(t, err, &protocol)
	require.Equal(t, code, protocol.Code, "%v", err)
}

// requireMalformed checks that err ends the subscriptions of a track, and not the session.
func requireMalformed(t *testing.T, err error) {
	t.Helper()
	var track *MalformedTrackError
	require.ErrorAs(t, err, &track)
	var protocol *ProtocolError
	require.False(t, errors.As(err, &protocol), "%v", err)
}

// printed returns m in all the forms in which logs and failures show values.
func printed(m Message) []string {
	var text, object bytes.Buffer
	slog.New(slog.NewTextHandler(&text, nil)).Info("message", "message", m)
	slog.New(slog.NewJSONHandler(&object, nil)).Info("message", "message", m)
	return []string{fmt.Sprintf("%v", m), fmt.Sprintf("%+v", m), fmt.Sprintf("%#v", m), text.String(), object.String()}
}
