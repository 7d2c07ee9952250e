package natsengine

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"sluice/internal/certtest"
	"sluice/moqt"
	"sluice/server/cluster"
	"sluice/server/cluster/clustertest"
)

// freeAddress returns a loopback address with a TCP port that is free.
func freeAddress(t *testing.T) string { return freeAddressAt(t, "127.0.0.1") }

// nextPort is below the ports that the system gives to outgoing connections, and those that package clitest's programs
// use: these could take it before the test does.
var nextPort atomic.Int32

func init() { nextPort.Store(18_000 + int32(os.Getpid())%1_500) }

func freeAddressAt(t *testing.T, host string) string {
	for range 1000 {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(nextPort.Add(1)))))
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no free port")
	return ""
}

func configOf(t *testing.T, node string) Config {
	return Config{
		Cluster: "test", Node: node, Token: "secret", Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
}

// join makes a node with an engine.
func join(t *testing.T, id string, e cluster.Engine) *cluster.Node {
	n, err := cluster.Join(cluster.Config{
		Cluster: "test", ID: id, Card: func() cluster.Card { return cluster.Card{URL: "moqt://" + id} },
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}, e)
	require.NoError(t, err)
	t.Cleanup(func() { _ = n.Leave() })
	return n
}

// knows waits until a node knows which others have a publisher for a namespace.
func knows(t *testing.T, n *cluster.Node, ns moqt.Namespace, origins ...string) {
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := []string{}
		for _, h := range n.Choices(ns, "") {
			found = append(found, h.Node)
		}
		require.ElementsMatch(c, origins, found)
	}, time.Minute, 20*time.Millisecond)
}

var liveA = moqt.Namespace{"live", "a"}

// free returns the configuration of an embedded engine at a free address.
func free(t *testing.T, node string, tls TLS, join ...string) EmbedConfig {
	cfg := EmbedConfig{Config: configOf(t, node), Listen: freeAddress(t), Join: join}
	cfg.TLS = tls
	return cfg
}

func embed(t *testing.T, cfg EmbedConfig) *Engine {
	e, err := Embed(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

func dial(t *testing.T, node, url string) *Engine {
	e, err := Dial(DialConfig{Config: configOf(t, node), URLs: []string{url}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// embedAll makes embedded engines. Each joins the first.
func embedAll(t *testing.T, nodes ...string) (engines []*Engine) {
	var first []string
	for _, id := range nodes {
		cfg := free(t, id, TLS{}, first...)
		engines = append(engines, embed(t, cfg))
		if first == nil {
			first = []string{cfg.Listen}
		}
	}
	return engines
}

func TestEmbed(t *testing.T) {
	t.Parallel()
	engines := embedAll(t, "a", "b", "c")
	a, b, c := join(t, "a", engines[0]), join(t, "b", engines[1]), join(t, "c", engines[2])
	a.Advertise(liveA)
	c.Advertise(moqt.Namespace{})
	knows(t, b, liveA, "a", "c")
	knows(t, c, liveA, "a")
	a.Withdraw(liveA)
	knows(t, b, liveA, "c")
	require.NoError(t, c.Leave())
	knows(t, b, liveA)
	require.Len(t, b.Status().Nodes, 2)
}

// issue writes the files of a node of this machine, whose certificate has an authority of its own.
func issue(t *testing.T) TLS {
	f := certtest.New(t).Issue(t)
	return TLS{f.CA, f.Cert, f.Key}
}

// TestAddresses joins servers at addresses that their connections do not come from: those that have joined the first
// one find each other.
func TestAddresses(t *testing.T) {
	t.Parallel()
	var nodes []*cluster.Node
	var first []string
	for i, id := range []string{"a", "b", "c"} {
		cfg := EmbedConfig{
			Config: configOf(t, id), Listen: freeAddressAt(t, fmt.Sprint("127.0.1.", i+1)), Join: first,
		}
		nodes = append(nodes, join(t, id, embed(t, cfg)))
		if first == nil {
			first = []string{cfg.Listen}
		}
	}
	nodes[1].Advertise(liveA)
	knows(t, nodes[2], liveA, "b")
}

// TestAuthorityIsReplaced lets a node with a certificate of another authority join. The others learn to trust it while
// they run. Their routes stay.
func TestAuthorityIsReplaced(t *testing.T) {
	t.Parallel()
	before, after := issue(t), issue(t)
	both := func(file string) {
		var all []byte
		for _, name := range []string{before.CAFile, after.CAFile} {
			text, err := os.ReadFile(name)
			require.NoError(t, err)
			all = append(all, text...)
		}
		require.NoError(t, os.WriteFile(file, all, 0o600))
	}
	files := before
	files.CAFile = filepath.Join(t.TempDir(), "ca.pem")
	text, err := os.ReadFile(before.CAFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files.CAFile, text, 0o600))
	cfg := free(t, "a", files)
	cfg.reread = 50 * time.Millisecond
	a := join(t, "a", embed(t, cfg))
	a.Advertise(liveA)
	next := after
	next.CAFile = filepath.Join(t.TempDir(), "both.pem")
	both(next.CAFile)
	e := embed(t, free(t, "b", next, cfg.Listen))
	b := join(t, "b", e)
	time.Sleep(time.Second) // it tries
	require.False(t, e.Present(), "the authority is not trusted yet")
	both(files.CAFile)
	knows(t, b, liveA, "a")
}

// TestStrangers is about servers that are not of the cluster: no route to them comes into being.
func TestStrangers(t *testing.T) {
	t.Parallel()
	ours, theirs := issue(t), issue(t)
	for name, change := range map[string]func(*EmbedConfig){
		"without TLS":                func(c *EmbedConfig) { c.TLS = TLS{} },
		"of another authority":       func(c *EmbedConfig) { c.TLS = theirs },
		"without a token":            func(c *EmbedConfig) { c.Token = "" },
		"with another token":         func(c *EmbedConfig) { c.Token = "guess" },
		"of a cluster of other name": func(c *EmbedConfig) { c.Cluster = "other" },
	} {
		t.Run(name, func(t *testing.T) {
			first := free(t, "a", ours)
			a := embed(t, first)
			stranger := free(t, "x", ours, first.Listen)
			change(&stranger)
			x := embed(t, stranger)

			b := embed(t, free(t, "b", ours, first.Listen)) // a friend
			require.Eventually(t, b.Present, time.Minute, 20*time.Millisecond)
			// The friend may know of the route before the other end does.
			require.Eventually(t, func() bool { return a.server.Load().NumRoutes() > 0 }, time.Minute, time.Millisecond)
			require.Equal(t, 1, a.server.Load().NumRoutes(), "the friend only")
			require.False(t, x.Present())
		})
	}
}

// TestDial uses a NATS server that is another process in practice, with a user and permissions for each node.
func TestDial(t *testing.T) {
	t.Parallel()
	opts := serverOptions()
	s := startServer(t, opts)
	a, b := join(t, "a", dial(t, "a", s.ClientURL())), join(t, "b", dial(t, "b", s.ClientURL()))
	a.Advertise(liveA)
	knows(t, b, liveA, "a")

	// A node cannot speak for another one.
	liar := dial(t, "c", s.ClientURL())
	require.NoError(t, liar.Publish("sluice.test.bye.a", []byte(`{"epoch":18446744073709551615}`)))
	require.NoError(t, liar.Publish("sluice.test.beat.a",
		[]byte(`{"epoch":18446744073709551615,"version":0,"card":{"url":"moqt://evil"}}`)))
	require.NoError(t, liar.Close())
	require.Equal(t, "moqt://a", b.Choices(liveA, "")[0].URL)

	// The server goes and comes back.
	opts.Port = s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	require.Eventually(t, func() bool { return !b.Status().Engine }, time.Minute, 20*time.Millisecond)
	a.Advertise(moqt.Namespace{"late"})
	require.NotEmpty(t, b.Choices(liveA, ""), "known routes stay")
	startServer(t, opts)
	knows(t, b, moqt.Namespace{"late"}, "a")
	knows(t, b, liveA, "a")
}

// serverOptions returns the options of a NATS server with the users a, b and c.
func serverOptions() *server.Options {
	opts := &server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true}
	for _, node := range []string{"a", "b", "c"} {
		publish, subscribe := cluster.Permissions("test", node)
		opts.Users = append(opts.Users, &server.User{
			Username: node, Password: "secret", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: publish},
				Subscribe: &server.SubjectPermission{Allow: subscribe},
			},
		})
	}
	return opts
}

func startServer(t *testing.T, opts *server.Options) *server.Server {
	s, err := server.NewServer(opts.Clone())
	require.NoError(t, err)
	s.Start()
	require.True(t, s.ReadyForConnections(time.Minute))
	t.Cleanup(s.Shutdown)
	return s
}

// TestServerIsAwayAtStart starts a node before the NATS server.
func TestServerIsAwayAtStart(t *testing.T) {
	t.Parallel()
	opts := serverOptions()
	opts.Port = portOf(t, freeAddress(t))
	url := fmt.Sprintf("nats://127.0.0.1:%d", opts.Port)
	a := join(t, "a", dial(t, "a", url))
	a.Advertise(liveA)
	startServer(t, opts)
	b := join(t, "b", dial(t, "b", url))
	knows(t, b, liveA, "a")
}

// TestSlowServer has a NATS server that does not read: whoever publishes does not wait for it.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	end := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() { greet(t, l, end) })
	e := dial(t, "a", "nats://"+l.Addr().String())
	require.Eventually(t, e.Present, time.Minute, time.Millisecond)
	data := make([]byte, 128<<10)
	for range 2 * maxOutgoing / len(data) {
		if err = e.Publish("x", data); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, errSlow)
	close(end)
	require.NoError(t, l.Close())
	running.Wait()
	require.NoError(t, e.Close())
	require.NoError(t, e.Publish("x", data), "it gets lost")
}

// greet accepts a connection as a NATS server does, and reads nothing from it after that.
func greet(t *testing.T, l net.Listener, end <-chan struct{}) {
	c, err := l.Accept()
	if !assert.NoError(t, err) {
		return
	}
	defer c.Close()
	_, err = fmt.Fprint(c, `INFO {"server_id":"x","version":"2.10.0","proto":1,"max_payload":1048576}`+"\r\n")
	assert.NoError(t, err)
	for lines := bufio.NewScanner(c); lines.Scan() && lines.Text() != "PING"; {
	}
	_, err = fmt.Fprint(c, "PONG\r\n")
	assert.NoError(t, err)
	<-end
}

// TestSlowNode has messages come faster than the node reads them: those beyond a number of bytes get lost.
func TestSlowNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngine(slog.New(slog.DiscardHandler))
		goOn, got := make(chan struct{}), 0
		require.NoError(t, e.Subscribe(func(string, []byte) {
			<-goOn
			got++
		}))
		data := make([]byte, 1<<20)
		for range 2 * maxIncoming / len(data) {
			e.messages <- &nats.Msg{Subject: "x", Data: data}
		}
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		require.LessOrEqual(t, got*len(data), maxIncoming)
		require.NotZero(t, got)
		require.NoError(t, e.Close())
	})
}

// TestAlone lets one of two nodes die.
func TestAlone(t *testing.T) {
	t.Parallel()
	engines := embedAll(t, "a", "b")
	require.Eventually(t, engines[1].Present, time.Minute, time.Millisecond)
	require.False(t, engines[1].Alone())
	require.NoError(t, engines[0].Close())
	require.Eventually(t, engines[1].Alone, time.Minute, time.Millisecond)
	require.False(t, engines[1].Present())
}

func portOf(t *testing.T, address string) int {
	a, err := net.ResolveTCPAddr("tcp", address)
	require.NoError(t, err)
	return a.Port
}

// TestSuccessor starts a node while another process, which it replaces, has its address.
func TestSuccessor(t *testing.T) {
	t.Parallel()
	first := free(t, "b", TLS{})
	node := join(t, "b", embed(t, first))
	node.Advertise(liveA)

	next := free(t, "a", TLS{}, first.Listen)
	a := join(t, "a", embed(t, next))
	knows(t, a, liveA, "b")
	_, err := Embed(next)
	require.ErrorContains(t, err, "address already in use")
	next.Wait = true
	successor := join(t, "a", embed(t, next))
	successor.Advertise(moqt.Namespace{"new"})
	require.NoError(t, a.Leave())
	knows(t, successor, liveA, "b")
	knows(t, node, moqt.Namespace{"new"}, "a")

	next.Listen = first.Listen // one that does not become free
	e := embed(t, next)
	require.False(t, e.Present())
	require.NoError(t, e.Close())
}

// TestWaitForNothing has an address that does not become one of this machine.
func TestWaitForNothing(t *testing.T) {
	t.Parallel()
	cfg := EmbedConfig{Config: configOf(t, "a"), Listen: "192.0.2.1:6222", Wait: true}
	cfg.TLS = issue(t)
	_, err := Embed(cfg)
	require.ErrorContains(t, err, "--cluster-listen")
}

// TestDeepNames sends the longest names through NATS.
func TestDeepNames(t *testing.T) {
	t.Parallel()
	engines := embedAll(t, strings.Repeat("a", 63), "b")
	a, b := join(t, strings.Repeat("a", 63), engines[0]), join(t, "b", engines[1])
	names := []moqt.Namespace{{strings.Repeat("\x00", moqt.MaxFullTrackNameLen)}, {"*", ">", ".", " ", "\xff"}, nil}
	for _, field := range []string{strings.Repeat("x", 24), strings.Repeat("\xfe", 128)} {
		var ns moqt.Namespace
		for range moqt.MaxNamespaceFields {
			ns = append(ns, field)
		}
		require.NoError(t, ns.Validate())
		names = append(names, ns)
	}
	require.Eventually(t, func() bool { return len(b.Status().Nodes) == 2 }, time.Minute, 20*time.Millisecond)
	var mu sync.Mutex
	heard := make(map[string]bool)
	b.Watch(func(c cluster.Change) {
		mu.Lock()
		defer mu.Unlock()
		heard[c.Namespace.String()] = !c.Gone
	})
	for _, ns := range names {
		a.Advertise(ns)
	}
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(heard) == len(names)
	}, time.Minute, 20*time.Millisecond)
	for _, ns := range names {
		require.True(t, heard[ns.String()], "%s", ns)
	}
	require.Zero(t, b.Counts().Invalid)
	require.Zero(t, b.Counts().Asks, "all came as changes, and none was lost")
}

// TestMatches compares the matching of the bus in memory with NATS's.
func TestMatches(t *testing.T) {
	t.Parallel()
	tokens := []string{"a", "b", "*", ">"}
	var patterns, subjects []string
	for _, x := range tokens {
		patterns = append(patterns, x)
		for _, y := range tokens {
			if x != ">" {
				patterns = append(patterns, x+"."+y)
			}
		}
	}
	for _, x := range tokens[:2] {
		subjects = append(subjects, x, x+".a", x+".b", x+".a.b")
	}
	for _, p := range patterns {
		for _, s := range subjects {
			require.Equal(t, server.SubjectMatchesFilter(s, p), clustertest.Matches(p, s), "%s %s", p, s)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	files := issue(t)
	config := func(listen string, join ...string) EmbedConfig {
		return EmbedConfig{Config: configOf(t, "a"), Listen: listen, Join: join}
	}
	used, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer used.Close()
	for _, tc := range []struct {
		cfg  EmbedConfig
		tls  TLS
		want string
	}{
		{config("0.0.0.0:6222"), TLS{}, "--cluster-listen: 0.0.0.0:6222: nodes on other machines must prove who"},
		{config(":6222"), TLS{}, "nodes on other machines must prove"},
		{config("192.0.2.1:6222"), TLS{}, "add --cluster-ca, --cluster-cert and --cluster-key"},
		{config("127.0.0.1:6222", "192.0.2.1:6222"), TLS{}, "--cluster-join: 192.0.2.1:6222"},
		{config("127.0.0.1"), TLS{}, `--cluster-listen: "127.0.0.1": must be host:port`},
		{config("127.0.0.1:x"), TLS{}, "must have a port"},
		{config("127.0.0.1:0"), TLS{}, "must have a port"},
		{config("127.0.0.1:6222", "x"), TLS{}, `--cluster-join: "x": must be host:port`},
		{config("0.0.0.0:6222"), TLS{CAFile: files.CAFile}, "belong together"},
		{config("0.0.0.0:6222"), TLS{CAFile: "none", CertFile: "none", KeyFile: "none"}, "--cluster-ca: open none"},
		{config("0.0.0.0:6222"), TLS{files.KeyFile, files.CertFile, files.KeyFile}, "has no PEM certificate"},
		{config("0.0.0.0:6222"), TLS{files.CAFile, files.CAFile, files.KeyFile}, "--cluster-cert, --cluster-key"},
		{config(used.Addr().String()), TLS{}, "choose another address"},
	} {
		tc.cfg.TLS = tc.tls
		_, err := Embed(tc.cfg)
		require.ErrorContains(t, err, tc.want)
	}
	for url, want := range map[string]string{
		"nats://192.0.2.1:4222":           "--cluster-url: 192.0.2.1:4222: nodes on other machines must prove",
		"nats://nats.example":             "nats.example:4222",
		"http://127.0.0.1":                "must be nats://host:port",
		"127.0.0.1:4222":                  "must be nats://host:port",
		"nats://user:secret@127.0.0.1:42": "must have no password",
	} {
		_, err := Dial(DialConfig{Config: configOf(t, "a"), URLs: []string{url}})
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "secret")
	}
}
