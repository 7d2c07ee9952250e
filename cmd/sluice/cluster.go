package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"sluice/internal/cli"
	"sluice/server/cluster"
)

func newCluster(env *cli.Environment) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the cluster of a running relay",
	}
	cmd.AddCommand(newClusterStatus(env))
	return cmd
}

// clusterStatusFlags are the flags of sluice cluster status.
type clusterStatusFlags struct {
	operatorFlags
	asDot, routes bool
}

func newClusterStatus(env *cli.Environment) *cobra.Command {
	var f clusterStatusFlags
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the nodes of a cluster, and who feeds whom",
		Long: `Ask a relay on this machine for the nodes of its cluster: what each tells about itself once a second. A
line "fed by" is a feed: a session over which a node gets tracks from another one.`,
		Example: `  sluice cluster status
  sluice cluster status --routes
  sluice cluster status --dot | dot -Tpng > cluster.png`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), env.Stdout) },
	}
	f.registerOpen(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&f.asDot, "dot", false, "write a graph for Graphviz: an arrow goes from the node that feeds")
	flags.BoolVar(&f.routes, "routes", false, "list the namespaces that each node has a publisher for")
	cmd.MarkFlagsMutuallyExclusive("json", "dot", "routes")
	return cmd
}

func (f *clusterStatusFlags) run(ctx context.Context, w io.Writer) error {
	var st cluster.Status
	return f.show(ctx, request{method: http.MethodGet, path: "/cluster", answer: &st, text: func() []byte {
		if f.asDot {
			return clusterDot(&st)
		}
		return clusterText(&st, f.routes)
	}}, w)
}

// clusterText writes the status of a cluster for people.
func clusterText(st *cluster.Status, routes bool) []byte {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NODE\tREGION\tURL\tROUTES\tLOAD\tPRICE\tHEARD")
	for _, n := range st.Nodes {
		heard := n.Silent.Round(100*time.Millisecond).String() + " ago"
		if n.ID == st.Node {
			heard = "this node"
		}
		count := fmt.Sprint(len(n.Routes) + n.More)
		if n.Pending {
			count += "+"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%.0f%%\t%g\t%s\n",
			n.ID, cmp.Or(n.Card.Region, "-"), n.Card.URL, count, n.Card.Load*100, n.Card.Price, heard)
	}
	table.Flush()
	for _, n := range st.Nodes {
		for _, l := range n.Card.Feeds {
			fmt.Fprintf(&b, "%s is fed by %s: %d tracks, RTT %s\n", n.ID, l.From, l.Tracks, rttText(l.RTT))
		}
	}
	if !st.Engine {
		fmt.Fprintln(&b, "no other node can be heard now; known routes stay")
	}
	if routes {
		writeRoutes(&b, st)
	}
	return b.Bytes()
}

func writeRoutes(w io.Writer, st *cluster.Status) {
	for _, n := range st.Nodes {
		for _, route := range n.Routes {
			fmt.Fprintf(w, "%s publishes %s\n", n.ID, route)
		}
		if n.More > 0 {
			fmt.Fprintf(w, "%s publishes %d more\n", n.ID, n.More)
		}
	}
}

// clusterDot draws who feeds whom, in the language of Graphviz. A region is a box.
func clusterDot(st *cluster.Status) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "digraph %q {\n\trankdir=LR\n\tnode [shape=box]\n", st.Cluster)
	regions := make(map[string][]string)
	var order []string
	for _, n := range st.Nodes {
		r := n.Card.Region
		if regions[r] == nil {
			order = append(order, r)
		}
		regions[r] = append(regions[r], fmt.Sprintf("%q [label=%q]", n.ID,
			fmt.Sprintf("%s\n%d routes", n.ID, len(n.Routes)+n.More)))
	}
	for _, r := range order {
		nodes := strings.Join(regions[r], "\n\t")
		if r == "" {
			fmt.Fprintf(&b, "\t%s\n", nodes)
			continue
		}
		fmt.Fprintf(&b, "\tsubgraph %q {\n\tlabel=%q\n\t%s\n\t}\n", "cluster_"+r, r, nodes)
	}
	for _, n := range st.Nodes {
		for _, l := range n.Card.Feeds {
			label := fmt.Sprintf("%d tracks, %s", l.Tracks, rttText(l.RTT))
			fmt.Fprintf(&b, "\t%q -> %q [label=%q]\n", l.From, n.ID, label)
		}
	}
	b.WriteString("}\n")
	return b.Bytes()
}
