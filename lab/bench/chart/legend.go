package chart

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// legend is the title and the names of traces. It stands above a plot, where it hides no values.
type legend struct {
	title   string
	text    text.Style
	entries []legendEntry
}

type legendEntry struct {
	name  string
	thumb plot.Thumbnailer
}

func (l *legend) add(name string, thumb plot.Thumbnailer) {
	l.entries = append(l.entries, legendEntry{name, thumb})
}

// draw draws the legend at the top, in as many lines as it needs, and returns their height.
func (l *legend) draw(c draw.Canvas) vg.Length {
	const margin, thumb, gap = 8, 18, 14 // points
	line := l.text.Font.Size * 1.5
	sty := l.text
	sty.Color, sty.XAlign, sty.YAlign = color.Black, draw.XLeft, draw.YBottom
	y := c.Max.Y - line - vg.Points(2)
	bold := sty
	bold.Font = font.From(sty.Font, 11)
	c.FillText(bold, vg.Point{X: c.Min.X + vg.Points(margin), Y: y}, l.title)
	x := c.Min.X + vg.Points(margin)
	y -= line
	for _, e := range l.entries {
		width := vg.Points(thumb+4) + sty.Width(e.name)
		if x+width > c.Max.X && x > c.Min.X+vg.Points(margin) {
			x, y = c.Min.X+vg.Points(margin), y-line
		}
		box := c
		box.Min, box.Max = vg.Point{X: x, Y: y + vg.Points(1)}, vg.Point{X: x + vg.Points(thumb), Y: y + line*0.65}
		e.thumb.Thumbnail(&box)
		c.FillText(sty, vg.Point{X: x + vg.Points(thumb+4), Y: y}, e.name)
		x += width + vg.Points(gap)
	}
	return c.Max.Y - y + vg.Points(6)
}
