package rtsp

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bluenviron/gortsplib/v5"
	"github.com/bluenviron/gortsplib/v5/pkg/base"
	"github.com/bluenviron/gortsplib/v5/pkg/description"
	"github.com/bluenviron/gortsplib/v5/pkg/headers"
	"github.com/bluenviron/gortsplib/v5/pkg/mikey"
	"github.com/pion/rtp"
	"github.com/stretchr/testify/require"

	"sluice/internal/testlimit"
	"sluice/internal/thorough"
)

// TestReplayedSRTP records a publisher's packets, and sends them again, long enough for the library to take them.
func TestReplayedSRTP(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	var mu sync.Mutex
	var recorded [][]byte
	replay := false
	pub := w.publish("/live/cam", func(c *gortsplib.Client) {
		c.ListenPacket = tapped(func(b []byte) []byte {
			mu.Lock()
			defer mu.Unlock()
			if !replay {
				recorded = append(recorded, b)
				return b
			}
			if b[1]&0x7f != 96 || len(recorded) == 0 {
				return nil
			}
			b, recorded = recorded[0], recorded[1:]
			return b
		}, nil)
	})
	sub := w.play("/live/cam")
	for range 15 {
		pub.frames(10)
		pub.received(w.Server, 2*int(pub.number))
	}
	before := counted(t, w, "received_packets_total")
	mu.Lock()
	var video [][]byte
	for _, b := range recorded {
		if b[1]&0x7f == 96 {
			video = append(video, b)
		}
	}
	recorded, replay = video, true
	mu.Unlock()
	eventually(t, "old packets", func() bool {
		pub.frames(1)
		return counted(t, w, "ignored_packets_total", ignoredReplay) > 0
	})
	require.Equal(t, before, counted(t, w, "received_packets_total"))
	sub.expects(1, 150)
}

// TestWrongKey has a publisher send packets that its key does not decrypt. It has to leave, and others stay. On a busy
// machine it may be silent for a second, and leave for that.
func TestWrongKey(t *testing.T) {
	thorough.Only(t)
	t.Parallel()
	w := newSecureServer(t, func(c *Config) { c.ReadTimeout = time.Second })
	good := publishTo(t, w.Server, "/live/cam", gortsplib.ProtocolTCP)
	sub := w.play("/live/cam")
	bad := w.publish("/live/bad", func(c *gortsplib.Client) {
		c.ListenPacket = tapped(func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, nil)
	})
	eventually(t, "the publisher leaves", func() bool {
		good.frames(1) // it must not be silent
		_ = bad.client.WritePacketRTP(bad.desc.Medias[0], &rtp.Packet{
			Header: rtp.Header{Version: 2, PayloadType: 96}, Payload: framePayload(1),
		})
		return counted(t, w, "publishers") == 1
	})
	require.Contains(t, w.log.String(), errUndecryptable.Error())
	require.Equal(t, 1, strings.Count(w.log.String(), errUndecryptable.Error()))
	require.Positive(t, counted(t, w, "ignored_packets_total", ignoredSRTP))
	good.frames(10)
	sub.expects(1, good.number)
}

// TestHostileSRTP asks for SRTP in all wrong ways. Each client learns why, and others do not notice.
func TestHostileSRTP(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub, sub := w.publish("/live/cam"), w.play("/live/cam")
	secret := base64.StdEncoding.EncodeToString(mikeyKey(t, pub.desc.Medias[0].KeyMgmtMikey))
	encoded, err := pub.desc.Medias[0].KeyMgmtMikey.Marshal()
	require.NoError(t, err)
	good := base64.StdEncoding.EncodeToString(encoded)
	old := *pub.desc.Medias[0].KeyMgmtMikey
	old.Payloads = append([]mikey.Payload{&mikey.PayloadT{TSValue: 1}}, old.Payloads[1:]...)
	encoded, err = old.Marshal()
	require.NoError(t, err)
	late := base64.StdEncoding.EncodeToString(encoded)
	header := func(data string) string { return `KeyMgmt: prot=mikey;uri="x";data="` + data + `"` }
	const savp = "Transport: RTP/SAVP;unicast;client_port=%d-%d"
	plain, tls := w.Addr().String(), w.TLSAddr().String()
	for name, tc := range map[string]struct {
		address, transport string
		headers            []string
		want               base.StatusCode
		says               string
	}{
		"no key":        {tls, savp, nil, base.StatusBadRequest, ""},
		"no base64":     {tls, savp, []string{header("!" + secret)}, base.StatusBadRequest, ""},
		"no MIKEY":      {tls, savp, []string{header(secret)}, base.StatusBadRequest, ""},
		"half of MIKEY": {tls, savp, []string{header(good[:len(good)/8*4])}, base.StatusBadRequest, ""},
		"two keys":      {tls, savp, []string{header(good), header(good)}, base.StatusBadRequest, ""},
		"protocol":      {tls, savp, []string{"KeyMgmt: prot=" + secret + `;uri="x"`}, base.StatusBadRequest, ""},
		"old":           {tls, savp, []string{header(late)}, base.StatusBadRequest, ""},
		"without TLS":   {plain, savp, []string{header(good)}, base.StatusUnsupportedTransport, "SRTP needs rtsps"},
		"RTP on TLS": {tls, strings.Replace(savp, "SAVP", "AVP", 1), nil, base.StatusUnsupportedTransport,
			"must be RTP/SAVP"},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, w.Server)
			scheme := "rtsp://"
			if tc.address == tls {
				c, scheme = dialTLS(t, w.Server, w.conf), "rtsps://"
			}
			at, err := net.ResolveUDPAddr("udp", freePair(t))
			require.NoError(t, err)
			transport := fmt.Sprintf(tc.transport, at.Port, at.Port+1)
			res := c.ask("SETUP", scheme+tc.address+"/live/cam/trackID=0", append(tc.headers, transport)...)
			require.Equal(t, tc.want, res.StatusCode)
			require.Contains(t, res.StatusMessage, tc.says)
		})
	}
	eventually(t, "the log says why", func() bool { return strings.Contains(w.log.String(), errKeys.Error()) })
	require.Equal(t, 1, strings.Count(w.log.String(), errKeys.Error()), "once in a minute")
	pub.frames(10)
	sub.expects(1, 10)
	require.NotContains(t, w.log.String(), secret)
	require.NotContains(t, w.log.String(), good)
}

// TestKeysStaySecret looks for the keys of all clients in the log, with all levels, in the status and in what players
// are told.
func TestKeysStaySecret(t *testing.T) {
	t.Parallel()
	w := newSecureServer(t)
	pub := w.publish("/live/cam")
	sub := w.play("/live/cam")
	pub.frames(10)
	sub.expects(1, 10)
	u := w.url("/live/cam")
	c := gortsplib.Client{TLSConfig: w.conf, Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	_, res, err := c.Describe(u)
	require.NoError(t, err)
	told := string(res.Body) + fmt.Sprintf("%+v", w.cfg.Relay.Guests())
	sub.client.Close()
	pub.client.Close()
	eventually(t, "all leave", func() bool { return strings.Contains(w.log.String(), "has left") })
	for _, desc := range []*description.Session{pub.desc, sub.desc} {
		for _, m := range desc.Medias {
			key := mikeyKey(t, m.KeyMgmtMikey)
			encoded, err := m.KeyMgmtMikey.Marshal()
			require.NoError(t, err)
			for _, secret := range []string{
				string(key), hex.EncodeToString(key), base64.StdEncoding.EncodeToString(key),
				base64.StdEncoding.EncodeToString(encoded), fmt.Sprint(key),
			} {
				require.NotContains(t, w.log.String(), secret)
				require.NotContains(t, told, secret)
			}
		}
	}
	require.Contains(t, string(res.Body), "a=key-mgmt:mikey ")
}

// TestNoSRTP checks that without an address for SRTP players are told to use the TLS connection.
func TestNoSRTP(t *testing.T) {
	t.Parallel()
	s, conf := newTLSServer(t)
	publishTo(t, s, "/live/cam", gortsplib.ProtocolTCP)
	url := "rtsps://" + s.TLSAddr().String() + "/live/cam"
	u, err := base.ParseURL(url)
	require.NoError(t, err)
	c := gortsplib.Client{TLSConfig: conf, Scheme: u.Scheme, Host: u.Host}
	require.NoError(t, c.Start())
	defer c.Close()
	desc, _, err := c.Describe(u)
	require.NoError(t, err)
	require.Equal(t, headers.TransportProfileAVP, desc.Medias[0].Profile)
	for _, profile := range []string{"SAVP", "AVP"} {
		transport := "Transport: RTP/" + profile + ";unicast;client_port=9000-9001"
		res := dialTLS(t, s, conf).ask("SETUP", url+"/trackID=0", transport)
		require.Equal(t, base.StatusUnsupportedTransport, res.StatusCode)
		require.Contains(t, res.StatusMessage, "must use the TLS connection")
	}
}

// FuzzMIKEY reads headers with keys, as the library does before anybody has shown a permission.
func FuzzMIKEY(f *testing.F) {
	randomness := &mikey.PayloadRAND{Data: make([]byte, 16)}
	policy := &mikey.PayloadSP{PolicyParams: []mikey.PayloadSPPolicyParam{{Type: 0, Value: []byte{1}}}}
	keys := &mikey.PayloadKEMAC{SubPayloads: []*mikey.SubPayloadKeyData{{
		Type: mikey.SubPayloadKeyDataTypeTEK, KV: mikey.SubPayloadKeyDataKVSPI, KeyData: make([]byte, 30),
		SPI: []byte{1, 2, 3, 4},
	}}}
	m := &mikey.Message{
		Header:   mikey.Header{Version: 1, CSIDMapInfo: []mikey.SRTPIDEntry{{SSRC: 1}, {SSRC: 2, ROC: 3}}},
		Payloads: []mikey.Payload{&mikey.PayloadT{TSValue: 1 << 63}, randomness, policy, keys},
	}
	b, err := m.Marshal()
	require.NoError(f, err)
	for n := range len(b) {
		f.Add(b[:n+1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var k headers.KeyMgmt
		data := base64.StdEncoding.EncodeToString(b)
		testlimit.Run(t, len(b), 1000, func() {
			if k.Unmarshal(base.HeaderValue{`prot=mikey;uri="x";data="` + data + `"`}) == nil {
				require.NotNil(t, k.MikeyMessage)
			}
			_ = k.Unmarshal(base.HeaderValue{string(b)}) // any header
		})
	})
}
