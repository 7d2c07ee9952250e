package neighbor

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/transport/transporttest"
)

func TestCoverOf(t *testing.T) {
	parse := func(s string) (list []moqt.Namespace) {
		for _, p := range strings.Fields(s) {
			list = append(list, strings.Split(strings.Trim(p, "/"), "/"))
		}
		return list
	}
	for _, tt := range []struct{ wanted, asked, cover string }{
		{"", "", ""},
		{"", "a", ""},
		{"a b", "", "a b"},
		{"a a", "", "a"},
		{"a/b a a/c", "", "a"},
		{"a/b a/c", "a", "a"},
		{"a/b", "c", "a/b"},
		{"a", "a/b c", "a"},
		{"a/b b", "a/b c", "b a/b"},
	} {
		require.Equal(t, parse(tt.cover), coverOf(parse(tt.wanted), parse(tt.asked)), tt)
	}
}

func TestAnnouncementsUpstreamAreLimited(t *testing.T) {
	conn, _ := transporttest.Pipe(transporttest.PipeConfig{})
	log := slog.New(slog.DiscardHandler)
	s, err := session.New(conn, session.Config{Authority: "relay", Path: "/", Logger: log})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var tasks sync.WaitGroup
	a := NewAnnouncer(Config{Session: s, Sharing: ctx, Tasks: &tasks, Log: log, Announce: []moqt.Namespace{{}}})
	for i := range maxAnnounced + 1 {
		a.Changed(moqt.Namespace{"live", fmt.Sprint(i)}, true, moqt.Parameters{})
	}
	require.Len(t, a.of, maxAnnounced)
	a.Changed(moqt.Namespace{"live", "0"}, false, moqt.Parameters{})
	require.Len(t, a.of, maxAnnounced-1)
	cancel()
	tasks.Wait()
}
