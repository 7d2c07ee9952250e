package main

import (
	"bytes"
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"sluice/internal/cluster"
)

// Sizes in the picture of a cluster, in pixels.
const (
	svgMargin  = 24
	svgWidth   = 150 // of a node
	svgHeight  = 56  // of a node, at least
	svgBetween = 170 // columns; the labels of the arrows are there
	svgApart   = 22  // nodes of a column
	svgArrow   = 20  // from one arrow to the next one, where they end
	svgBend    = 40  // in which arrows change their height
)

// svgColors are those of regions, again and again.
var svgColors = []string{"#dbeafe", "#dcfce7", "#fef3c7", "#fce7f3", "#e0e7ff", "#ccfbf1", "#ffedd5", "#f3e8ff"}

// svgNode is a node with its place in the picture, or the room for an arrow that passes a column.
type svgNode struct {
	*cluster.NodeStatus
	feeds        []svgFeed // from nodes that are in the picture
	passes       bool      // it is room for an arrow
	found        bool      // its column
	column       int
	x, y, height int
	color        string
}

type svgFeed struct {
	cluster.Feed
	from *svgNode
	way  []*svgNode // through the columns in between
}

// clusterSVG draws who feeds whom, from left to right. Nodes of one region have one color.
func clusterSVG(st *cluster.Status) []byte {
	nodes := svgNodes(st)
	width, height := svgPlace(nodes)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d"`+
		` font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", html.EscapeString(st.Cluster))
	b.WriteString(`<defs><marker id="to" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"` +
		` orient="auto"><path d="M0 0 8 4 0 8z" fill="#475569"/></marker></defs>` + "\n" +
		`<rect width="100%" height="100%" fill="#fff"/>` + "\n")
	for _, n := range nodes {
		for i := range n.feeds {
			n.drawFeed(&b, i, height)
		}
		if !n.passes {
			n.draw(&b)
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// svgNodes returns the nodes, each in its column.
func svgNodes(st *cluster.Status) (nodes []*svgNode) {
	of, colors := make(map[string]*svgNode), make(map[string]string)
	for i := range st.Nodes {
		n := &svgNode{NodeStatus: &st.Nodes[i]}
		region := n.Card.Region
		if colors[region] == "" {
			colors[region] = svgColors[len(colors)%len(svgColors)]
		}
		n.color = colors[region]
		nodes, of[n.ID] = append(nodes, n), n
	}
	for _, n := range nodes {
		for _, f := range n.Card.Feeds {
			if from := of[f.From]; from != nil {
				n.feeds = append(n.feeds, svgFeed{Feed: f, from: from})
			}
		}
	}
	for _, n := range nodes {
		n.findColumn()
	}
	for _, n := range slices.Clone(nodes) {
		for i := range n.feeds {
			f := &n.feeds[i]
			for c := f.from.column + 1; c < n.column; c++ {
				f.way = append(f.way, &svgNode{NodeStatus: n.NodeStatus, passes: true, column: c})
			}
			nodes = append(nodes, f.way...)
		}
	}
	return nodes
}

// findColumn puts a node to the right of those that feed it. Nodes that feed each other are in the order in which they
// are found.
func (n *svgNode) findColumn() {
	if n.found {
		return
	}
	n.found = true
	for _, f := range n.feeds {
		f.from.findColumn()
		n.column = max(n.column, f.from.column+1)
	}
}

// svgPlace gives each node its place, and returns the size of the picture.
func svgPlace(nodes []*svgNode) (width, height int) {
	slices.SortStableFunc(nodes, func(a, b *svgNode) int {
		return cmp.Or(cmp.Compare(a.column, b.column), strings.Compare(a.Card.Region, b.Card.Region),
			strings.Compare(a.ID, b.ID))
	})
	y, column := svgMargin, 0
	for _, n := range nodes {
		if n.column != column {
			y, column = svgMargin, n.column
		}
		n.x, n.y = svgMargin+column*(svgWidth+svgBetween), y
		if !n.passes {
			n.height = max(svgHeight, (len(n.feeds)+1)*svgArrow)
		}
		y += n.height + svgApart
		width, height = max(width, n.x+svgWidth+svgMargin), max(height, y-svgApart+svgMargin)
	}
	return width, height + svgMargin // the last part is for arrows that go back
}

func (n *svgNode) draw(b *bytes.Buffer) {
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#475569"/>`+"\n",
		n.x, n.y, svgWidth, n.height, n.color)
	y := n.y + n.height/2
	lines := []string{n.ID, fmt.Sprintf("%s, %d routes", cmp.Or(n.Card.Region, "no region"), len(n.Routes)+n.More),
		fmt.Sprintf("load %.0f%%", n.Card.Load*100)}
	for i, line := range lines {
		weight := "normal"
		if i == 0 {
			weight = "bold"
		}
		fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" font-weight="%s">%s</text>`+"\n",
			n.x+svgWidth/2, y-11+15*i, weight, html.EscapeString(line))
	}
}

// drawFeed draws the arrow of a feed. One that goes back, to a node that has come first, runs below all nodes.
func (n *svgNode) drawFeed(b *bytes.Buffer, i, bottom int) {
	f := &n.feeds[i]
	x, y := f.from.x+svgWidth, f.from.y+f.from.height/2
	toX, toY := n.x, n.y+(i+1)*n.height/(len(n.feeds)+1)
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %d", x, y)
	bend := func(x, y, toX, toY int) {
		fmt.Fprintf(&path, "H%dC%d %d %d %d %d %d", x, (x+toX)/2, y, (x+toX)/2, toY, toX, toY)
	}
	if f.from.column >= n.column {
		down := bottom - svgMargin/2
		fmt.Fprintf(&path, "C%d %d %d %d %d %dH%d", x+svgBend, y, x+svgBend, down, x, down, toX)
		fmt.Fprintf(&path, "C%d %d %d %d %d %d", toX-svgBend, down, toX-svgBend, toY, toX, toY)
	} else {
		for _, pass := range append(f.way, &svgNode{x: toX, y: toY}) {
			bend(x, y, x+svgBend, pass.y)
			x, y = pass.x+svgWidth, pass.y
		}
		fmt.Fprintf(&path, "H%d", toX)
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="#475569" marker-end="url(#to)"/>`+"\n", path.String())
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="end" font-size="11" fill="#334155">%d tracks, %s</text>`+"\n",
		toX-10, toY-4, f.Tracks, rttText(f.RTT))
}
