package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"time"

	"sluice/internal/certtest"
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
	hosts := r.lab.Subscribers[treeViewers+1:]
	for i, host := range hosts {
		s := &natsServer{host: host, task: task}
		s.task.Address = host.Devices[0].IPv4.Addr()
		s.task.Others = []netip.Addr{hosts[1-i].Devices[0].IPv4.Addr()}
		r.nats = append(r.nats, s)
	}
	return r.startServers()
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
