package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"sluice/internal/certtest"
	"sluice/internal/hostile"
	"sluice/internal/lab"
)

// natsServer is a NATS server of the operator, in a host of its own.
type natsServer struct {
	*process // which may be replaced by another one
	host     *lab.Host
	task     natsTask
}

// begin starts the server, and waits until nodes can connect.
func (s *natsServer) begin() error {
	text, err := json.Marshal(s.task)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), natsVariable+"="+string(text))
	if s.process, err = start(s.host, "NATS server in "+s.host.Name, cmd, func(string) {}, nil); err != nil {
		return err
	}
	address := netip.AddrPortFrom(s.task.Address, natsPort).String()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := dialIn(s.host)(context.Background(), "tcp", address)
		if err == nil {
			return conn.Close()
		}
		if time.Now().After(deadline) {
			return s.failure(err)
		}
	}
}

// natsServers is how many there are.
const natsServers = 2

// startNATS starts the servers, which nodes and each other trust by certificates.
func (r *tree) startNATS(files certtest.Files) error {
	task := natsTask{Files: files, Password: clusterToken}
	for i := range nodes {
		task.Nodes = append(task.Nodes, nodeName(i))
	}
	for i := range hostile.NodeAttacks {
		task.Nodes = append(task.Nodes, hostileNode(i))
	}
	hosts := r.lab.Subscribers[treeViewers+1:]
	for i, host := range hosts {
		s := &natsServer{host: host, task: task}
		s.task.Address = host.Devices[0].IPv4.Addr()
		s.task.Others = []netip.Addr{hosts[1-i].Devices[0].IPv4.Addr()}
		r.nats = append(r.nats, s)
	}
	if err := r.startServers(); err != nil {
		return err
	}
	return r.harass()
}

func (r *tree) startServers() error {
	var errs []error
	for _, s := range r.nats {
		errs = append(errs, s.begin())
	}
	return errors.Join(errs...)
}

func (r *tree) killServers() error {
	for _, s := range r.nats {
		s.signal(syscall.SIGKILL)
		<-s.done
	}
	return nil
}

// hostileNode returns the name of the node that does the i-th attack.
func hostileNode(i int) string { return fmt.Sprint("hostile", i) }

// harassInterval is the time between two messages of hostile nodes.
const harassInterval = 10 * time.Millisecond

// harass sends what hostile nodes send, one after another, until the run ends. They may do so: each has a user of its
// own.
func (r *tree) harass() error {
	var conns []*nats.Conn
	for i := range hostile.NodeAttacks {
		c, err := r.nats[i%natsServers].connect(hostileNode(i))
		if err != nil {
			return err
		}
		conns = append(conns, c)
	}
	go func() {
		next := time.NewTicker(harassInterval)
		defer next.Stop()
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		for i := uint64(0); ; i++ {
			for k, c := range conns {
				subject, data := hostile.NodeAttacks[k].Message(hostileNode(k), i)
				_ = c.Publish("sluice."+natsCluster+"."+subject, []byte(data)) // fails while the server is away
				select {
				case <-next.C:
				case <-r.ctx.Done():
					return
				}
			}
		}
	}()
	return nil
}

// connect connects to the server as a user, from the server's host.
func (s *natsServer) connect(user string) (*nats.Conn, error) {
	conf, err := s.task.tls()
	if err != nil {
		return nil, err
	}
	url := fmt.Sprint("tls://", netip.AddrPortFrom(s.task.Address, natsPort))
	return nats.Connect(url, nats.UserInfo(user, s.task.Password), nats.Secure(conf), nats.MaxReconnects(-1),
		nats.ReconnectWait(time.Second), nats.ReconnectBufSize(-1), nats.SetCustomDialer(hostDialer{s.host}))
}

// hostDialer dials inside a host.
type hostDialer struct{ host *lab.Host }

// Dial implements nats.CustomDialer.
func (d hostDialer) Dial(network, address string) (net.Conn, error) {
	return dialIn(d.host)(context.Background(), network, address)
}
