package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/internal/files"
)

// operatorFlags are the flags of the commands that ask a running relay for something, at its admin address.
type operatorFlags struct {
	admin     string
	tokenFile string
	asJSON    bool
}

func (f *operatorFlags) register(cmd *cobra.Command) {
	f.registerOpen(cmd)
	cmd.Flags().StringVar(&f.tokenFile, "admin-token-file", "",
		"`file` with the admin token, if the relay has that flag")
}

// registerOpen registers the flags of commands that ask for what needs no token.
func (f *operatorFlags) registerOpen(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.admin, "admin", "127.0.0.1:4480", "the relay's --admin `address`")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "write JSON")
}

// request is a request of a command.
type request struct {
	method, path string
	query        url.Values
	answer       any           // gets the JSON of the answer
	text         func() []byte // the answer for people
}

// show sends a request, and writes the answer.
func (f *operatorFlags) show(ctx context.Context, r request, w io.Writer) error {
	text, err := f.ask(ctx, r.method, r.path, r.query, r.answer)
	if err != nil {
		return err
	}
	if !f.asJSON {
		text = r.text()
	}
	_, err = w.Write(text)
	return err
}

// maxAnswer is the size of the longest answer in bytes: the status of 16,384 sessions has a quarter of it.
const maxAnswer = 128 << 20

// ask sends a request, and reads the answer into v. It returns the answer, too.
func (f *operatorFlags) ask(ctx context.Context, method, path string, q url.Values, v any) ([]byte, error) {
	if err := bounds.Address("--admin", f.admin, "an address such as 127.0.0.1:4480"); err != nil {
		return nil, cli.AsUsage(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	at := "http://" + f.admin + path
	if len(q) > 0 {
		at += "?" + q.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, at, nil)
	if err != nil {
		return nil, cli.AsUsage(fmt.Errorf("--admin: %w", err))
	}
	if f.tokenFile != "" {
		token, err := files.Secret(f.tokenFile)
		if err != nil {
			return nil, cli.AsUsage(fmt.Errorf("--admin-token-file: %w", err))
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if mistake, ok := errors.AsType[*url.Error](err); ok {
		err = mistake.Err // without the URL
	}
	if err != nil {
		return nil, fmt.Errorf("%w; is a relay running with --admin %s?", err, f.admin)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", at, err)
	case resp.StatusCode >= http.StatusBadRequest && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain"):
		return nil, f.explain(resp.StatusCode, strings.TrimSpace(string(text)))
	case resp.StatusCode >= http.StatusBadRequest:
		return nil, fmt.Errorf("%s: not the answer of a relay: %s", at, resp.Status)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return nil, fmt.Errorf("%s: not the answer of a relay: %w", at, err)
	}
	return text, nil
}

// explain returns the error for an answer.
func (f *operatorFlags) explain(code int, text string) error {
	switch {
	case code == http.StatusNotFound && strings.HasPrefix(text, "404 page"):
		const want = "the --admin address of a relay that is not older than this program"
		return fmt.Errorf("--admin: %s: must be %s", f.admin, want)
	case code == http.StatusBadRequest:
		return cli.AsUsage(errors.New(text))
	}
	return errors.New(text)
}
