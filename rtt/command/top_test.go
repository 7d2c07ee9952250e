package command

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"sluice/rtt/top"
)

func TestKeysOfTop(t *testing.T) {
	var out bytes.Buffer
	v := &topView{out: &out, title: "eth0", flows: top.Table{}, networks: top.Table{Prefixes: true}}
	for _, c := range []struct {
		key      byte
		goesOn   bool
		prefixes bool
		sort     top.SortKey
		title    string
	}{
		{'l', true, false, top.SortLoss, "0 flow directions"},
		{'p', true, true, top.SortLoss, "0 prefixes"},
		{'b', true, true, top.SortBytes, "0 prefixes"},
		{'x', true, true, top.SortBytes, "0 prefixes"},
		{'r', true, true, top.SortRTT, "0 prefixes"},
		{'f', true, false, top.SortRTT, "0 flow directions"},
		{3, false, false, top.SortRTT, "0 flow directions"},
		{'q', false, false, top.SortRTT, "0 flow directions"},
	} {
		require.Equal(t, c.goesOn, v.press(c.key), "%q", c.key)
		require.Equal(t, c.prefixes, v.prefixes)
		require.Equal(t, c.sort, v.flows.Sort)
		require.Equal(t, c.sort, v.networks.Sort)
		out.Reset()
		v.render()
		require.Contains(t, out.String(), "sluice-rtt top  eth0  ")
		require.Contains(t, out.String(), c.title)
	}
}
