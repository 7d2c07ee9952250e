package hostile

import (
	"fmt"
	"math"
)

// NodeAttack is the harmful messages of a node of a cluster, under its own name.
type NodeAttack struct {
	Name    string
	message func(node string, i uint64) (subject, data string)
}

// Message returns the i-th message of a node. The subject is without the names of the application and the cluster.
func (a NodeAttack) Message(node string, i uint64) (subject, data string) { return a.message(node, i) }

// NodeAttacks are all attacks of nodes.
var NodeAttacks = []NodeAttack{
	{"garbage", func(node string, i uint64) (string, string) {
		kinds := []string{"beat." + node, "route." + node + ".x", "snap." + node + ".=", "bye." + node, "what." + node}
		return kinds[i%uint64(len(kinds))], "{]"
	}},
	{"lives without end", func(node string, i uint64) (string, string) {
		return "beat." + node, beatOf(i+1, 1, true)
	}},
	{"goodbyes", func(node string, i uint64) (string, string) {
		if i%2 == 0 {
			return "beat." + node, beatOf(i+1, 0, false)
		}
		return "bye." + node, fmt.Sprintf(`{"epoch":%d,"version":0}`, i)
	}},
	{"versions that nobody has", func(node string, i uint64) (string, string) {
		return "beat." + node, beatOf(1, 2*i, false)
	}},
	{"questions", func(node string, _ uint64) (string, string) {
		return "beat." + node, beatOf(math.MaxUint64, 0, true)
	}},
	{"halves of snapshots", func(node string, i uint64) (string, string) {
		return "snap." + node + ".=", fmt.Sprintf(
			`{"epoch":1,"version":%d,"card":%s,"index":0,"routes":["flood-%d"]}`, i+2, card, i)
	}},
	{"routes", func(node string, i uint64) (string, string) {
		if i == 0 {
			return "beat." + node, beatOf(1, 0, false)
		}
		return fmt.Sprintf("route.%s.flood.%d", node, i),
			fmt.Sprintf(`{"epoch":1,"version":%d,"namespace":"flood-%d"}`, i, i)
	}},
}

// card is the node's card. Nobody listens at its URL.
const card = `{"url":"moqt://192.0.2.1"}`

func beatOf(epoch, version uint64, isNew bool) string {
	return fmt.Sprintf(`{"epoch":%d,"version":%d,"card":%s,"new":%t}`, epoch, version, card, isNew)
}
