package control_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"sluice/lab"
	"sluice/lab/control"
	"sluice/lab/labtest"
)

func TestControl(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1, Downlink: lab.Conditions{Loss: 0.5}})
	name := fmt.Sprint("test-", os.Getpid())
	_, err := control.Dial(name)
	require.ErrorIs(t, err, control.ErrNotUp)
	server, err := control.Listen(name)
	require.NoError(t, err)
	_, err = control.Listen(name)
	require.EqualError(t, err, "lab: "+name+" is already up (take it down, or choose another name)")
	served := make(chan error, 1)
	go func() { served <- server.Serve(t.Context(), l) }()

	client, err := control.Dial(name)
	require.NoError(t, err)
	names, err := control.Names()
	require.NoError(t, err)
	require.Contains(t, names, name)
	status, err := client.Status(t.Context())
	require.NoError(t, err)
	want, err := l.Status()
	require.NoError(t, err)
	want.Name = name
	require.Equal(t, withoutCounts(want), withoutCounts(status))
	require.Len(t, status.Hosts, 4)
	require.Equal(t, lab.Probability(0.5), status.Hosts[2].Devices[0].ToHost.Conditions.Loss)

	no := false
	address := l.Subscribers[0].Devices[0].IPv4
	require.NoError(t, client.Apply(t.Context(), lab.Change{
		Host: "sub1", ToHost: &lab.Conditions{Rate: 5e6}, Up: &no, Rebind: true, ChangeAddress: false}))
	status, err = client.Status(t.Context())
	require.NoError(t, err)
	device := status.Hosts[2].Devices[0]
	require.Equal(t, lab.Conditions{Rate: 5e6}, device.ToHost.Conditions)
	require.Equal(t, lab.Conditions{Loss: 0.5}, device.FromHost.Conditions)
	require.False(t, device.Up)
	yes := true
	require.NoError(t, client.Apply(t.Context(), lab.Change{Host: "sub1", Device: "eth0", Up: &yes}))
	require.NoError(t, client.Apply(t.Context(), lab.Change{Host: "sub1", ChangeAddress: true}))
	require.NotEqual(t, address, l.Subscribers[0].Devices[0].IPv4)

	for want, change := range map[string]lab.Change{
		`no host "sub2": there are pub, relay, net and sub1 to sub1`: {Host: "sub2"},
		`no link of that name: relay has ["relay:up" "relay:down"]`:  {Host: "relay"},
		`no link of that name: sub1 has ["sub1:eth0"]`:               {Host: "sub1", Device: "eth1"},
	} {
		require.EqualError(t, client.Apply(t.Context(), change), "lab "+name+": "+want)
	}

	done := make(chan error, 1)
	go func() { done <- client.Down(t.Context()) }()
	require.NoError(t, <-served)
	require.NoError(t, l.Close())
	require.NoError(t, server.Close())
	require.NoError(t, <-done)
	_, err = control.Dial(name)
	require.ErrorIs(t, err, control.ErrNotUp)
}

// withoutCounts removes the counts that background packets change.
func withoutCounts(s lab.Status) lab.Status {
	for _, h := range s.Hosts {
		for i := range h.Devices {
			h.Devices[i].ToHost.Stats, h.Devices[i].FromHost.Stats = lab.LinkStats{}, lab.LinkStats{}
		}
	}
	return s
}

func TestEndProcesses(t *testing.T) {
	l := labtest.New(t, lab.Topology{Subscribers: 1})
	ended := func(host *lab.Host, script string) <-chan error {
		cmd := exec.Command("sh", "-c", script)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, host.Start(cmd))
		_, err = out.Read(make([]byte, 1)) // it runs
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		return done
	}
	polite := ended(l.Relay, "trap 'exit 7' TERM; echo; while :; do sleep 0.01; done")
	stubborn := ended(l.Subscribers[0], "trap '' TERM; echo; while :; do sleep 0.01; done")
	outside := exec.Command("sleep", "60")
	require.NoError(t, outside.Start())

	count, err := l.EndProcesses(500 * time.Millisecond)
	require.NoError(t, err)
	require.GreaterOrEqual(t, count, 2, "the shells and perhaps what they run")
	require.EqualError(t, <-polite, "exit status 7")
	require.EqualError(t, <-stubborn, "signal: killed")
	require.NoError(t, outside.Process.Kill())
	require.EqualError(t, outside.Wait(), "signal: killed")
	count, err = l.EndProcesses(time.Second)
	require.NoError(t, err)
	require.Zero(t, count)
}
