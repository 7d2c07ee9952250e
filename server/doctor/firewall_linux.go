package doctor

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/xt"
	"golang.org/x/sys/unix"
)

// askNftables returns what the rules of nftables, also those that iptables has written, do with a packet.
func askNftables(p packet) (v verdict, err error) {
	defer func() { // rules that the library does not expect must not end a relay that starts
		if cause := recover(); cause != nil {
			err = fmt.Errorf("nftables: %v", cause)
		}
	}()
	c, err := nftables.New()
	if err == nil {
		v, err = (&filter{conn: c, packet: p}).run()
	}
	if err != nil {
		err = fmt.Errorf("nftables: %w", err)
	}
	return v, err
}

// filter follows a packet through the rules. A rule whose conditions it cannot judge does not match.
type filter struct {
	conn *nftables.Conn
	packet
	verdict
	registers map[uint32][]byte // what is known of them
}

// families are the values of packet.family: the tables that see it, and where its header has the protocol.
var families = map[string]struct {
	table    nftables.TableFamily
	name     string
	protocol uint32
}{"IPv4": {nftables.TableFamilyIPv4, "ip", 9}, "IPv6": {nftables.TableFamilyIPv6, "ip6", 6}}

var protocols = map[string]byte{"udp": unix.IPPROTO_UDP, "tcp": unix.IPPROTO_TCP}

// maxDepth is the kernel's limit of chains that call each other (NFT_JUMP_STACK_SIZE).
const maxDepth = 16

func (f *filter) run() (verdict, error) {
	chains, err := f.conn.ListChains()
	if err != nil {
		return verdict{}, err
	}
	for _, c := range chains {
		family, own := "inet", families[f.family]
		if c.Table.Family == own.table {
			family = own.name
		} else if c.Table.Family != nftables.TableFamilyINet {
			continue
		}
		if c.Hooknum == nil || c.Type == nftables.ChainTypeNAT ||
			*c.Hooknum != *nftables.ChainHookInput && *c.Hooknum != *nftables.ChainHookPrerouting {
			continue
		}
		kind, err := f.walk(c.Table, c.Name, maxDepth)
		if err != nil {
			return verdict{}, fmt.Errorf("chain %s: %w", c.Name, err)
		}
		closed := c.Policy != nil && *c.Policy == nftables.ChainPolicyDrop
		if kind == expr.VerdictDrop || kind == expr.VerdictContinue && closed {
			f.drops, f.by = true, fmt.Sprintf("%s %s %s", family, c.Table.Name, c.Name)
			return f.verdict, nil
		}
		f.unsure = false // the rules of this chain did not matter
	}
	return f.verdict, nil
}

// walk returns VerdictAccept, VerdictDrop or, at the end of the chain, VerdictContinue.
func (f *filter) walk(t *nftables.Table, chain string, depth int) (expr.VerdictKind, error) {
	if depth == 0 {
		return expr.VerdictContinue, nil
	}
	rules, err := f.conn.GetRules(t, &nftables.Chain{Name: chain, Table: t})
	if err != nil {
		return 0, err
	}
	for _, r := range rules {
		v := f.apply(t, r)
		if v == nil {
			continue
		}
		kind := v.Kind
		switch kind {
		case expr.VerdictReturn:
			return expr.VerdictContinue, nil
		case expr.VerdictJump, expr.VerdictGoto:
			if kind, err = f.walk(t, v.Chain, depth-1); err != nil || v.Kind == expr.VerdictGoto {
				return kind, err
			}
		}
		if kind == expr.VerdictAccept || kind == expr.VerdictDrop {
			return kind, nil
		}
	}
	return expr.VerdictContinue, nil
}

var rejected = &expr.Verdict{Kind: expr.VerdictDrop}

// apply returns the verdict of a rule, or nil if it does not match or has none.
func (f *filter) apply(t *nftables.Table, r *nftables.Rule) *expr.Verdict {
	f.registers = make(map[uint32][]byte)
	for _, e := range r.Exprs {
		matches, known := true, true
		switch e := e.(type) {
		case *expr.Verdict:
			return e
		case *expr.Reject:
			return rejected
		case *expr.Target:
			if e.Name == "REJECT" {
				return rejected
			}
		case *expr.Lookup:
			var v *expr.Verdict
			if matches, known, v = f.lookup(t, e); matches && v != nil {
				return v
			}
		case *expr.Cmp:
			matches, known = f.compare(e)
		case *expr.Range:
			value := f.registers[e.Register]
			inside := bytes.Compare(e.FromData, value) <= 0 && bytes.Compare(value, e.ToData) <= 0
			matches, known = inside == (e.Op == expr.CmpOpEq), len(value) > 0
		case *expr.Match:
			matches, known = match(e)
		case *expr.Counter, *expr.Log, *expr.Notrack:
		default:
			known = f.load(e)
		}
		if !known {
			f.unsure = f.unsure || slices.ContainsFunc(r.Exprs, mayAccept)
		}
		if !known || !matches {
			return nil
		}
	}
	return nil
}

// mayAccept reports whether a rule with this expression may let a packet in. Many only drop, log or limit.
func mayAccept(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Verdict:
		return e.Kind != expr.VerdictDrop
	case *expr.Lookup:
		return e.IsDestRegSet
	}
	return false
}

// load computes a register. It returns false for an expression that it does not know. A register that it cannot compute
// is unknown only to what reads it.
func (f *filter) load(e expr.Any) bool {
	switch e := e.(type) {
	case *expr.Meta:
		f.registers[e.Register] = f.meta(e.Key)
	case *expr.Payload:
		f.registers[e.DestRegister] = f.payload(e)
	case *expr.Ct:
		f.registers[e.Register] = map[expr.CtKey][]byte{
			expr.CtKeySTATE:  binary.NativeEndian.AppendUint32(nil, expr.CtStateBitNEW),
			expr.CtKeySTATUS: make([]byte, 4), // no address is translated
		}[e.Key]
	case *expr.Bitwise:
		value := bytes.Clone(f.registers[e.SourceRegister])
		for i := range min(len(value), len(e.Mask), len(e.Xor)) {
			value[i] = value[i]&e.Mask[i] ^ e.Xor[i]
		}
		f.registers[e.DestRegister] = value
	default:
		return false
	}
	return true
}

// payload returns the destination port, or the protocol in the IP header.
func (f *filter) payload(e *expr.Payload) []byte {
	switch {
	case e.Base == expr.PayloadBaseTransportHeader && e.Offset == 2 && e.Len == 2:
		return binary.BigEndian.AppendUint16(nil, f.port)
	case e.Base == expr.PayloadBaseNetworkHeader && e.Offset == families[f.family].protocol && e.Len == 1:
		return f.meta(expr.MetaKeyL4PROTO)
	}
	return nil
}

func (f *filter) meta(key expr.MetaKey) []byte {
	switch key {
	case expr.MetaKeyL4PROTO:
		return []byte{protocols[f.protocol]}
	case expr.MetaKeyNFPROTO:
		return []byte{byte(families[f.family].table)}
	case expr.MetaKeyIIFNAME:
		if f.device != "" {
			return append([]byte(f.device), make([]byte, unix.IFNAMSIZ)...)[:unix.IFNAMSIZ]
		}
	case expr.MetaKeyIIF:
		if d, err := net.InterfaceByName(f.device); err == nil {
			return binary.NativeEndian.AppendUint32(nil, uint32(d.Index))
		}
	}
	return nil
}

func (f *filter) compare(e *expr.Cmp) (matches, known bool) {
	value := f.registers[e.Register]
	if len(value) < len(e.Data) {
		return false, false
	}
	return holds[e.Op][bytes.Compare(value[:len(e.Data)], e.Data)+1], true
}

// holds says whether a comparison is true for a value that is less, equal or greater.
var holds = map[expr.CmpOp][3]bool{
	expr.CmpOpEq: {false, true, false}, expr.CmpOpNeq: {true, false, true},
	expr.CmpOpLt: {true, false, false}, expr.CmpOpLte: {true, true, false},
	expr.CmpOpGt: {false, false, true}, expr.CmpOpGte: {false, true, true},
}

// lookup looks a register up in a set of values or intervals, or in a map of verdicts.
func (f *filter) lookup(t *nftables.Table, e *expr.Lookup) (matches, known bool, v *expr.Verdict) {
	value := f.registers[e.SourceRegister]
	if len(value) == 0 {
		return false, false, nil
	}
	set, err := f.conn.GetSetByName(t, e.SetName)
	if err != nil || set.Concatenation {
		return false, false, nil
	}
	elements, err := f.conn.GetSetElements(set)
	if err != nil {
		return false, false, nil
	}
	var start *nftables.SetElement // of the last interval that begins at the value or before it
	for i, el := range elements {
		order := bytes.Compare(el.Key, value)
		if order == 0 && !el.IntervalEnd || set.Interval && order <= 0 &&
			(start == nil || bytes.Compare(el.Key, start.Key) > 0) {
			start = &elements[i]
		}
	}
	matches = start != nil && !start.IntervalEnd
	if matches && e.IsDestRegSet {
		v = start.VerdictData
	}
	return matches != e.Invert, true, v
}

// match judges a condition that iptables leaves to its own modules: the state of a connection, or a comment.
func match(e *expr.Match) (matches, known bool) {
	i, ok := e.Info.(*xt.ConntrackMtinfo3)
	if !ok {
		return true, e.Name == "comment"
	}
	const state = uint16(xt.ConntrackState)
	matches = i.StateMask&uint16(expr.CtStateBitNEW) != 0
	return matches != (i.InvertFlags&state != 0), i.MatchFlags&^uint16(xt.ConntrackStateAlias) == state
}
