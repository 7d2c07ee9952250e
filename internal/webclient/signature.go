package webclient

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"sluice/internal/files"
)

// Limits of Secrets. The sizes are those that Standard Webhooks names.
const (
	minSecret, maxSecret = 24, 64 // bytes
	maxSecrets           = 4
	maxSecretsFile       = 4 << 10
)

// secretPrefix begins a secret as text. The rest is base64.
const secretPrefix = "whsec_"

const makeOne = "make one with: echo whsec_$(openssl rand -base64 32)"

// Secrets sign the requests of a Client as Standard Webhooks says (https://www.standardwebhooks.com), by HMAC-SHA256 of
// an id, the time and the body. There may be several, so that a service can change from one to the next.
type Secrets [][]byte

// ReadSecrets reads the secrets in a file, one a line. Without a name there are none. Errors do not repeat them.
func ReadSecrets(name string) (Secrets, error) {
	if name == "" {
		return nil, nil
	}
	b, _, err := files.Read(name, maxSecretsFile)
	if err != nil {
		return nil, err
	}
	s, err := parseSecrets(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return s, nil
}

func parseSecrets(b []byte) (all Secrets, err error) {
	lines := bufio.NewScanner(bytes.NewReader(b))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		text, ok := strings.CutPrefix(line, secretPrefix)
		secret, err := base64.StdEncoding.DecodeString(text)
		if !ok || err != nil || len(secret) < minSecret || len(secret) > maxSecret || len(all) == maxSecrets {
			return nil, fmt.Errorf("must be 1 to %d lines such as %s…, each with base64 of %d to %d bytes; %s",
				maxSecrets, secretPrefix, minSecret, maxSecret, makeOne)
		}
		all = append(all, secret)
	}
	if len(all) == 0 {
		return nil, errors.New("has no secret; " + makeOne)
	}
	return all, nil
}

// sign adds headers to a request with a body. The id is that of all attempts to send the body, and the time is that of
// this one: a service can tell that it has a message already, and refuse one that somebody repeats much later.
func (s Secrets) sign(h http.Header, now time.Time, body []byte) {
	sum := sha256.Sum256(body)
	id := "msg_" + base64.RawURLEncoding.EncodeToString(sum[:16])
	at := strconv.FormatInt(now.Unix(), 10)
	h.Set("Webhook-Id", id)
	h.Set("Webhook-Timestamp", at)
	h.Set("Webhook-Signature", s.signature(id, at, body))
}

// signature returns a signature by each secret.
func (s Secrets) signature(id, at string, body []byte) string {
	var all []string
	for _, secret := range s {
		mac := hmac.New(sha256.New, secret)
		fmt.Fprintf(mac, "%s.%s.%s", id, at, body)
		all = append(all, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return strings.Join(all, " ")
}
