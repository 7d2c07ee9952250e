package doctor

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"sluice/lab/netns"
)

// port is the condition of a destination port in nft's form: the protocol, the port.
func port(proto byte, number uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{proto}},
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, number)},
	}
}

// source is the condition of an address, which the doctor cannot judge.
func source() []expr.Any {
	return []expr.Any{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 12, Len: 4},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{192, 0, 2, 1}},
	}
}

func state(key expr.CtKey, bits uint32) []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Xor: make([]byte, 4),
			Mask: binary.NativeEndian.AppendUint32(nil, bits)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

func then(kind expr.VerdictKind, conditions ...expr.Any) []expr.Any {
	return append(conditions, &expr.Verdict{Kind: kind})
}

// TestFirewall has the kernel of an own namespace keep rules, and follows the first packet of a client through them.
func TestFirewall(t *testing.T) {
	const accept, drop = expr.VerdictAccept, expr.VerdictDrop
	interval := func(from, to uint16) (list []nftables.SetElement) {
		return []nftables.SetElement{
			{Key: binary.BigEndian.AppendUint16(nil, from)},
			{Key: binary.BigEndian.AppendUint16(nil, to), IntervalEnd: true},
		}
	}
	for name, tt := range map[string]struct {
		policy nftables.ChainPolicy
		rules  [][]expr.Any
		ports  []nftables.SetElement // of a set that the last rule accepts
		want   verdict
	}{
		"open":   {policy: nftables.ChainPolicyAccept},
		"closed": {want: verdict{drops: true}},
		"let in": {rules: [][]expr.Any{then(accept, port(unix.IPPROTO_UDP, 443)...)}},
		"TCP only": {rules: [][]expr.Any{then(accept, port(unix.IPPROTO_TCP, 443)...)},
			want: verdict{drops: true}},
		"established": {rules: [][]expr.Any{then(accept, state(expr.CtKeySTATE, expr.CtStateBitESTABLISHED)...)},
			want: verdict{drops: true}},
		"new": {rules: [][]expr.Any{then(accept, state(expr.CtKeySTATE, expr.CtStateBitNEW)...)}},
		"first": {policy: nftables.ChainPolicyAccept, want: verdict{drops: true},
			rules: [][]expr.Any{then(drop, port(unix.IPPROTO_UDP, 443)...), then(accept)}},
		"rejected": {policy: nftables.ChainPolicyAccept, want: verdict{drops: true}, rules: [][]expr.Any{
			append(port(unix.IPPROTO_UDP, 443), &expr.Counter{},
				&expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: 1}),
		}},
		"one address": {rules: [][]expr.Any{then(accept, source()...)},
			want: verdict{drops: true, unsure: true}},
		"no address": {rules: [][]expr.Any{then(drop, source()...)}, want: verdict{drops: true}},
		"translated": {rules: [][]expr.Any{then(accept, state(expr.CtKeySTATUS, 1<<5)...)},
			want: verdict{drops: true}},
		// as iptables -p udp --dport 400:500 writes it
		"iptables": {rules: [][]expr.Any{then(accept,
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 9, Len: 1},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{unix.IPPROTO_UDP}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Range{Op: expr.CmpOpEq, Register: 1, FromData: []byte{1, 144}, ToData: []byte{1, 244}},
		)}},
		"range":       {ports: interval(400, 500)},
		"other range": {ports: interval(500, 600), want: verdict{drops: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := namespace(t)
			table := c.AddTable(&nftables.Table{Name: "filter", Family: nftables.TableFamilyINet})
			chain := c.AddChain(&nftables.Chain{
				Name: "input", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookInput,
				Priority: nftables.ChainPriorityFilter, Policy: &tt.policy,
			})
			own := c.AddChain(&nftables.Chain{Name: "own", Table: table})
			for _, exprs := range tt.rules {
				c.AddRule(&nftables.Rule{Table: table, Chain: own, Exprs: exprs})
			}
			if tt.ports != nil {
				set := &nftables.Set{Table: table, Name: "ports", KeyType: nftables.TypeInetService, Interval: true}
				require.NoError(t, c.AddSet(set, tt.ports))
				lookup := port(unix.IPPROTO_UDP, 0)
				lookup[3] = &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID}
				c.AddRule(&nftables.Rule{Table: table, Chain: own, Exprs: then(accept, lookup...)})
			}
			c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: []expr.Any{
				&expr.Verdict{Kind: expr.VerdictJump, Chain: "own"},
			}})
			require.NoError(t, c.Flush())
			got, err := (&filter{conn: c, packet: packet{"IPv4", "udp", 443, "lo"}}).run()
			require.NoError(t, err)
			require.Equal(t, tt.want.drops, got.by == "inet filter input")
			got.by = ""
			require.Equal(t, tt.want, got)
		})
	}
}

// namespace returns a connection to the rules of a namespace that ends with the test.
func namespace(t *testing.T) *nftables.Conn {
	ns, err := netns.New()
	var missing *netns.MissingError
	if errors.As(err, &missing) && os.Getenv("SLUICE_REQUIRE_KERNEL") == "" {
		t.Skip(missing)
	}
	require.NoError(t, err)
	t.Cleanup(ns.Close)
	c, err := nftables.New(nftables.WithNetNSFd(int(ns.File.Fd())))
	require.NoError(t, err)
	return c
}

// TestIptables has conditions in the form that iptables writes.
func TestIptables(t *testing.T) {
	state := func(states uint32, more, inverted xt.ConntrackFlags) *xt.ConntrackMtinfo3 {
		i := new(xt.ConntrackMtinfo3)
		i.StateMask = uint16(states)
		i.MatchFlags, i.InvertFlags = uint16(xt.ConntrackState|xt.ConntrackStateAlias|more), uint16(inverted)
		return i
	}
	for _, tt := range []struct {
		info           xt.InfoAny
		matches, known bool
	}{
		{state(expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, 0, 0), false, true},
		{state(expr.CtStateBitNEW, 0, 0), true, true},
		{state(expr.CtStateBitINVALID, 0, xt.ConntrackState), true, true},
		{state(expr.CtStateBitNEW, xt.ConntrackProto, 0), true, false},
		{&xt.Unknown{}, true, false},
	} {
		matches, known := match(&expr.Match{Info: tt.info})
		require.Equal(t, tt.known, known, "%+v", tt.info)
		require.Equal(t, tt.matches, matches, "%+v", tt.info)
	}
}
