package chaos

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	"github.com/nats-io/nats-server/v2/server"

	"sluice/internal/certtest"
	"sluice/internal/cluster"
)

// natsVariable is the environment variable with what a NATS server is told, which is this test's program.
const natsVariable = "SLUICE_TEST_NATS"

// natsTask is what a server is told.
type natsTask struct {
	Address  netip.Addr // for nodes, and for the other servers
	Others   []netip.Addr
	Files    certtest.Files
	Nodes    []string // users
	Password string
}

const (
	natsPort      = 4222
	natsRoutePort = 6222
	natsCluster   = "chaos"
)

// beNATS is a NATS server until it is killed. It returns the exit code.
func beNATS(text string) int {
	var t natsTask
	err := json.Unmarshal([]byte(text), &t)
	if err == nil {
		err = t.serve()
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (t *natsTask) serve() error {
	conf, err := t.tls()
	if err != nil {
		return err
	}
	opts := &server.Options{
		ServerName: t.Address.String(), Host: t.Address.String(), Port: natsPort, NoLog: true, NoSigs: true,
		TLSConfig: conf, TLSVerify: true, TLSTimeout: 5,
		Cluster: server.ClusterOpts{
			Name: natsCluster, Host: t.Address.String(), Port: natsRoutePort, TLSConfig: conf, TLSTimeout: 5,
		},
	}
	for _, o := range t.Others {
		host := netip.AddrPortFrom(o, natsRoutePort).String()
		opts.Routes = append(opts.Routes, &url.URL{Scheme: "nats-route", Host: host})
	}
	for _, node := range t.Nodes {
		publish, subscribe := cluster.Permissions(natsCluster, node)
		opts.Users = append(opts.Users, &server.User{
			Username: node, Password: t.Password, Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: publish},
				Subscribe: &server.SubjectPermission{Allow: subscribe},
			},
		})
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return err
	}
	s.Start()
	s.WaitForShutdown()
	return errors.New("the server has ended")
}

// tls returns how servers and nodes prove to each other that they belong to the cluster.
func (t *natsTask) tls() (*tls.Config, error) {
	pem, err := os.ReadFile(t.Files.CA)
	if err != nil {
		return nil, err
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM(pem)
	cert, err := tls.LoadX509KeyPair(t.Files.Cert, t.Files.Key)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{cert}, RootCAs: authority, ClientCAs: authority,
		ClientAuth: tls.RequireAndVerifyClientCert,
	}, err
}
