package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/cmd/internal/relayflags"
	"sluice/internal/bounds"
	"sluice/internal/cli"
	"sluice/lab/conform"
	"sluice/moqt"
	"sluice/transport"
)

// conformFlags are the flags of sluice-lab conform.
type conformFlags struct {
	relayflags.Flags
	only      string
	list      bool
	runner    bool
	verbose   bool
	timeout   time.Duration
	namespace string
}

func newConform(env *cli.Environment) *cobra.Command {
	f := new(conformFlags)
	cmd := &cobra.Command{
		Use:   "conform [flags] URL",
		Short: "Try a relay of any make: does it keep the rules of MoQT?",
		Long: `Try the rules of draft-ietf-moq-transport that a client can see, one after another, each on sessions of
its own, against the relay at a URL: moqt://host:port/path for raw QUIC, https://host:port/path for WebTransport. The
results are TAP version 14: a test point for each rule, by section, and what was expected and received if the relay does
not keep it. The exit code is 0 if it keeps all of them, and 1 otherwise.

Sections are those of draft-18, unless they name another draft. For draft-16, whose messages differ, there are only the
exchanges that have to work. The relay has to let anybody publish and subscribe, or have a token that may.`,
		Example: `  sluice-lab conform --tls-disable-verify moqt://localhost:4443
  sluice-lab conform --draft 18 https://relay.example/moq
  sluice-lab conform --only '§10\.1 |alias' --timeout 20s moqt://relay.example
  sluice-lab conform --list`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), env, args) },
	}
	f.Register(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.only, "only", "", "try only rules whose line in --list matches this regular `expression`")
	flags.BoolVar(&f.list, "list", false, "print the rules, of all drafts, and try none")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Second, "a rule may take this `duration`")
	flags.StringVar(&f.namespace, "namespace", "conform",
		"publish below this `namespace`, its fields separated by slashes")
	flags.BoolVar(&f.verbose, "verbose", false, "log what the sessions do")
	flags.BoolVar(&f.runner, "runner", false,
		"try only what moq-interop-runner has, by its names, in --namespace itself; if there is none, exit with 127")
	return cmd
}

// errBroken says that the relay does not keep all rules. The output has the rest.
var errBroken = errors.New("the relay breaks rules")

// errNotHere is for moq-interop-runner: there is no such test.
var errNotHere = errors.New("no rule matches --only")

// name returns the line of a case.
func (f *conformFlags) name(c conform.Case) string {
	if f.runner {
		return c.Runner
	}
	return c.String()
}

// cases returns the chosen cases.
func (f *conformFlags) cases() (cases []conform.Case, err error) {
	only, err := regexp.Compile(f.only)
	if err != nil {
		return nil, cli.Usage("--only: %w", err)
	}
	for _, c := range conform.Cases() {
		if name := f.name(c); name != "" && only.MatchString(name) {
			cases = append(cases, c)
		}
	}
	switch {
	case len(cases) > 0:
		return cases, nil
	case f.runner:
		return nil, errNotHere
	}
	return nil, cli.Usage("--only: %q: matches no rule; --list has them", f.only)
}

func (f *conformFlags) run(ctx context.Context, env *cli.Environment, args []string) error {
	cases, err := f.cases()
	if err != nil {
		return err
	}
	if f.list {
		for _, c := range cases {
			fmt.Fprintln(env.Stdout, f.name(c))
		}
		return nil
	}
	suite, err := f.suite(env, args)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "TAP version 14\n# sluice-lab conform, %s\n# relay: %s\n", cli.Version(),
		transport.WithoutQuery(args[0]))
	if err := suite.Open(ctx); err != nil {
		fmt.Fprintln(env.Stdout, "Bail out! no session with the relay")
		if f.runner {
			return err // the runner knows no other code for failures
		}
		return &connectError{err}
	}
	cases = suite.Applicable(cases)
	fmt.Fprintf(env.Stdout, "# version: draft-%d\n1..%d\n", uint16(suite.Version()), len(cases))
	failed, err := conform.TAP(ctx, env.Stdout, suite, cases, f.name)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "# %d of %d passed\n", len(cases)-failed, len(cases))
	if failed > 0 {
		return errBroken
	}
	return nil
}

// suite returns the suite for a URL.
func (f *conformFlags) suite(env *cli.Environment, args []string) (*conform.Suite, error) {
	if len(args) == 0 {
		return nil, cli.Usage("the URL of the relay is missing, such as moqt://localhost:4443")
	}
	url, err := transport.ParseURL(args[0])
	if err != nil {
		return nil, cli.AsUsage(err)
	}
	if err := bounds.Check("--timeout", f.timeout, 100*time.Millisecond, time.Hour); err != nil {
		return nil, cli.AsUsage(err)
	}
	ns := moqt.Namespace(strings.Split(strings.Trim(f.namespace, "/"), "/"))
	if err := ns.Validate(); err != nil {
		return nil, cli.Usage("--namespace: %q: %w", f.namespace, err)
	}
	transport.OfferStockSuites()
	cfg, err := f.Transport()
	if err != nil {
		return nil, err
	}
	cfg.HandshakeTimeout = f.timeout
	protocols := cfg.Protocols
	if len(protocols) == 0 {
		protocols = moqt.ALPNs()
	}
	logger := slog.New(slog.DiscardHandler)
	if f.verbose {
		logger = slog.Default()
	}
	return &conform.Suite{
		Logger: logger,
		URL:    url, Protocols: protocols, Tokens: f.Tokens(env), Namespace: ns, Exact: f.runner, Timeout: f.timeout,
		Dial: func(ctx context.Context, protocols []string) (transport.Conn, error) {
			cfg := cfg
			cfg.Protocols = protocols
			return transport.Dial(ctx, args[0], cfg)
		},
	}, nil
}

// connectError says that there was no session with the relay at all.
type connectError struct{ error }

func (e *connectError) Unwrap() error { return e.error }
