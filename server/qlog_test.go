package server

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"sluice/moqt"
	"sluice/moqt/session"
	"sluice/server/qlogs"
	"sluice/transport"
)

// logged is an event of a qlog.
type logged struct {
	Time float64
	Name string
	Data map[string]any
}

// readQlog returns the header and the events of a JSON text sequence.
func readQlog(t *testing.T, file string) (header map[string]any, events []logged) {
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	records := bytes.Split(text, []byte{0x1e})
	require.Empty(t, records[0])
	require.NoError(t, json.Unmarshal(records[1], &header))
	last := 0.0
	for _, record := range records[2:] {
		var e logged
		require.NoError(t, json.Unmarshal(record, &e), string(record))
		require.GreaterOrEqual(t, e.Time, last)
		last = e.Time
		events = append(events, e)
	}
	return header, events
}

// describe returns what is told of an event: for a control message also its type, for a packet that of its frames.
func (e *logged) describe() string {
	if m, ok := e.Data["message"].(map[string]any); ok {
		return e.Name + " " + m["type"].(string)
	}
	if kind, ok := e.Data["stream_type"].(string); ok && strings.HasPrefix(e.Name, "moqt:") {
		return e.Name + " " + e.Data["owner"].(string) + " " + kind
	}
	frames, _ := e.Data["frames"].([]any)
	var all []string
	for _, f := range frames {
		all = append(all, f.(map[string]any)["frame_type"].(string))
	}
	return strings.Join(append([]string{e.Name}, all...), " ")
}

// qlogsOf serves a publisher on raw QUIC, and a subscriber on WebTransport, who fetches, too, and returns their qlogs.
// All that must not be in them has the word sesame.
func qlogsOf(t *testing.T, d *qlogs.Directory) {
	var cfg Config
	cfg.Transport.Inspection.Trace = d.Trace
	s := start(t, cfg)
	sesame := []moqt.Token{{AliasType: moqt.AliasUseValue, Value: []byte("sesame")}}
	join := func(scheme string) *session.Session {
		conn, err := transport.Dial(t.Context(), scheme+"://"+s.Addr().String()+"/live?token=sesame",
			transport.ClientConfig{Insecure: true, Protocols: moqt.ALPNs(), ListenUDP: listenUDP(t)})
		require.NoError(t, err)
		return runSessionAs(t, conn, session.Config{Tokens: sesame, Authority: "relay", Path: "/live?token=sesame"})
	}
	publisher, subscriber := join("moqt"), join("https")
	track := moqt.FullTrackName{Namespace: moqt.Namespace{"live"}, Name: "video"}
	p, err := publisher.Publish(t.Context(), moqt.Publish{
		Track: track, Parameters: moqt.Parameters{AuthorizationTokens: sesame},
	})
	require.NoError(t, err)
	require.NoError(t, p.Wait(t.Context()))
	got := make(streams, 10)
	sub, err := subscriber.Subscribe(t.Context(), moqt.Subscribe{
		Track: track, Parameters: moqt.Parameters{AuthorizationTokens: sesame},
	}, got)
	require.NoError(t, err)
	_, err = sub.Wait(t.Context())
	require.NoError(t, err)
	synctest.Wait() // the publisher knows that it has a subscriber
	stream, err := p.OpenSubgroup(t.Context(), moqt.SubgroupHeader{GroupID: 1, FirstObject: true})
	require.NoError(t, err)
	encoder := moqt.NewSubgroupEncoder(moqt.DataLayout1, moqt.SubgroupHeader{GroupID: 1})
	b, err := encoder.AppendObject(nil, moqt.ObjectHeader{PayloadLength: 6})
	require.NoError(t, err)
	_, err = stream.Write(append(b, "sesame"...))
	require.NoError(t, err)
	require.NoError(t, stream.Close())
	datagram := moqt.ObjectDatagram{Location: moqt.Location{Group: 2}, Payload: []byte("sesame")}
	require.NoError(t, p.SendDatagram(datagram))
	require.Contains(t, string(<-got), "sesame")
	f, err := subscriber.Fetch(t.Context(), moqt.Fetch{
		FetchType: moqt.FetchStandalone, Track: track, Start: moqt.Location{Group: 1},
		End: moqt.Location{Group: 1, Object: 1},
	})
	require.NoError(t, err)
	_, err = f.Wait(t.Context())
	require.NoError(t, err)
}

// TestQlog compares qlogs with what their connections have carried, and looks for secrets and payload in them.
func TestQlog(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	virtual(t, func(t *testing.T) {
		d, err := qlogs.Open(qlogs.Config{Path: dir})
		require.NoError(t, err)
		qlogsOf(t, d)
	})
	files, err := filepath.Glob(filepath.Join(dir, "*_server.sqlog"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	want := map[string][]string{
		"quic": { // the publisher
			"moqt:control_message_parsed setup", "moqt:control_message_created setup",
			"moqt:control_message_parsed publish", "moqt:control_message_created request_ok",
			"moqt:stream_type_set remote control", "moqt:stream_type_set local control",
			"moqt:stream_type_set remote subgroup_header", "moqt:subgroup_header_parsed",
			"moqt:object_datagram_parsed", "transport:packet_received stream",
		},
		"http3": {
			"http3:frame_parsed",
			"moqt:control_message_parsed subscribe", "moqt:control_message_created subscribe_ok",
			"moqt:stream_type_set local subgroup_header", "moqt:subgroup_header_created",
			"moqt:object_datagram_created",
			"moqt:control_message_parsed fetch", "moqt:control_message_created fetch_ok",
			"moqt:stream_type_set local fetch_header", "moqt:fetch_header_created",
			"transport:packet_sent stream", "transport:packet_sent datagram",
		},
	}
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, secret := range []string{
			`sesame`, `736573616d65`, `stateless_reset_token":"[^"]*[^"0]`, `"token":{"raw":{"data":"[^"]`,
		} {
			require.NotRegexp(t, secret, string(text))
		}
		header, events := readQlog(t, file)
		require.Equal(t, "urn:ietf:params:qlog:file:sequential", header["file_schema"])
		trace := header["trace"].(map[string]any)
		require.Contains(t, trace["event_schemas"], "urn:ietf:params:qlog:events:moqt-05")
		kind, seen := "quic", make(map[string]bool)
		for _, e := range events {
			seen[e.describe()] = true
			if strings.HasPrefix(e.Name, "http3:") {
				kind = "http3"
			}
		}
		for _, name := range want[kind] {
			require.Contains(t, seen, name, kind)
		}
		delete(want, kind)
	}
	require.Empty(t, want)
}

// TestQlogMatch writes qlogs of no other addresses.
func TestQlogMatch(t *testing.T) {
	t.Parallel()
	for match, files := range map[string]int{"127.0.0.0/8": 2, "192.0.2.0/24": 0} {
		dir := t.TempDir()
		virtual(t, func(t *testing.T) {
			of := qlogs.Match{Networks: []netip.Prefix{netip.MustParsePrefix(match)}}
			d, err := qlogs.Open(qlogs.Config{Path: dir, Match: of})
			require.NoError(t, err)
			qlogsOf(t, d)
		})
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Len(t, entries, files, match)
	}
}

// TestQlogsFail serves sessions whose qlogs cannot be written.
func TestQlogsFail(t *testing.T) {
	t.Parallel()
	virtual(t, func(t *testing.T) {
		dir := t.TempDir()
		var log bytes.Buffer
		d, err := qlogs.Open(qlogs.Config{Path: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(dir))
		qlogsOf(t, d)
		synctest.Wait()
		require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String()) // and not one a connection
		require.Contains(t, log.String(), "the qlog of a connection ends early")
	})
}
