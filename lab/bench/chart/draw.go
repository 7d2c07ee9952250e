package chart

import (
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"sluice/lab/bench/result"
)

// The size of plots.
const (
	plotWidth  = 16 * vg.Centimeter
	plotHeight = 9 * vg.Centimeter
)

// colours are the colours of systems. People with the common forms of colour blindness can tell them apart on white.
// Lines differ in their dashes, too.
var colours = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xc8, 0x50, 0x00, 0xff}, {0x00, 0x8a, 0x66, 0xff}, {0xa0, 0x3f, 0x7d, 0xff},
	{0x8a, 0x6d, 0x00, 0xff}, {0x3a, 0xa0, 0xd8, 0xff}, {0x55, 0x55, 0x55, 0xff}, {0xb0, 0xb0, 0xb0, 0xff},
}

var dashes = [][]vg.Length{
	nil, {vg.Points(6), vg.Points(2)}, {vg.Points(2), vg.Points(2)},
	{vg.Points(6), vg.Points(2), vg.Points(2), vg.Points(2)},
}

// Draw draws a chart as SVG.
func Draw(w io.Writer, c Chart) error {
	p, key, err := newPlot(c)
	if err != nil {
		return err
	}
	canvas := vgsvg.New(plotWidth, plotHeight)
	whole := draw.New(canvas)
	whole.FillPolygon(color.White, []vg.Point{{}, {X: plotWidth}, {X: plotWidth, Y: plotHeight}, {Y: plotHeight}})
	height := key.draw(whole)
	p.Draw(draw.Crop(whole, vg.Points(6), -vg.Points(12), vg.Points(6), -height))
	_, err = canvas.WriteTo(w)
	return err
}

// newPlot returns a chart as a plot, and the legend above it.
func newPlot(c Chart) (*plot.Plot, *legend, error) {
	p := emptyPlot()
	p.X.Label.Text, p.Y.Label.Text = result.WithUnit(c.X.Title, c.X.Unit), result.WithUnit(c.Y.Title, c.Y.Unit)
	key := &legend{title: c.Title, text: p.X.Label.TextStyle}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = color.Gray{0xdd}, color.Gray{0xdd}
	var err error
	switch c.Form {
	case Bars:
		grid.Vertical.Color = nil
		p.Add(grid)
		err = drawBars(p, key, c)
	default:
		p.Add(grid)
		err = drawLines(p, key, c)
	}
	scale(p, c)
	return p, key, err
}

var sans = font.Font{Typeface: "Liberation", Variant: "Sans"}

func init() { plot.DefaultFont = sans }

// emptyPlot returns a plot with the font of all text set.
func emptyPlot() *plot.Plot {
	p := plot.New()
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = font.From(sans, 10)
		a.Tick.Label.Font = font.From(sans, 9)
		a.Label.Padding = vg.Points(3)
	}
	return p
}

// scale sets the ticks, and fits a logarithmic axis to its values.
func scale(p *plot.Plot, c Chart) {
	p.Y.Tick.Marker = plot.TickerFunc(linearTicks)
	switch {
	case len(c.X.Categories) > 0:
		p.NominalX(c.X.Categories...)
		turnLabels(p, c.X.Categories)
	case c.X.Log && p.X.Min <= p.X.Max: // there are points, all above zero
		if p.X.Min == p.X.Max {
			p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
		}
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(logTicks)
	default:
		p.X.Tick.Marker = plot.TickerFunc(linearTicks)
		if p.X.Min > p.X.Max { // there are no points
			p.X.Min, p.X.Max = 0, 1
		}
	}
	switch c.Form {
	case CDF:
		p.Y.Min, p.Y.Max = 0, 1
	default:
		p.Y.Min = min(p.Y.Min, 0) // bars and lines begin at zero
		if p.Y.Max <= p.Y.Min {
			p.Y.Max = p.Y.Min + 1
		}
	}
}

// turnLabels turns the names of categories that do not fit beside each other.
func turnLabels(p *plot.Plot, categories []string) {
	var width vg.Length
	for _, c := range categories {
		width = max(width, p.X.Tick.Label.Width(c))
	}
	if width*vg.Length(len(categories)) > plotWidth-2*vg.Centimeter {
		p.X.Tick.Label.Rotation = math.Pi / 6
		p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YCenter
	}
}

func linearTicks(low, high float64) []plot.Tick {
	ticks := plot.DefaultTicks{}.Ticks(low, high)
	for i, t := range ticks {
		if t.Label != "" {
			ticks[i].Label = result.Number(t.Value).String()
		}
	}
	return ticks
}

// logTicks returns ticks at 1 to 9 times the powers of ten. Ticks at powers of ten have labels; over a short range, so
// do ticks at 2 and 5 times a power of ten.
func logTicks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	few := math.Log10(high/low) < 3
	for e := math.Floor(math.Log10(low)); e <= math.Ceil(math.Log10(high)); e++ {
		for d := 1.0; d < 10; d++ {
			t := plot.Tick{Value: d * math.Pow(10, e)}
			if d == 1 || few && (d == 2 || d == 5) {
				t.Label = result.Number(t.Value).String()
			}
			if t.Value >= low*0.999 && t.Value <= high*1.001 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

func drawLines(p *plot.Plot, key *legend, c Chart) error {
	for _, t := range c.Traces {
		xys := t.points(c)
		if len(xys) == 0 {
			continue
		}
		line, err := plotter.NewLine(xys)
		if err != nil {
			return err
		}
		line.LineStyle = draw.LineStyle{Color: t.colour(), Width: vg.Points(1.6), Dashes: t.dashes()}
		if c.Form == CDF {
			line.StepStyle = plotter.PostStep
		}
		p.Add(line)
		key.add(t.Name, line)
		if err := drawRanges(p, t, 0); err != nil {
			return err
		}
	}
	return nil
}

// drawBars draws the bars of a category beside each other.
func drawBars(p *plot.Plot, key *legend, c Chart) error {
	side := vg.Length(len(c.Traces))
	room := (plotWidth - 3*vg.Centimeter) / vg.Length(len(c.X.Categories))
	width := min(room*0.8/side, vg.Centimeter)
	for i, t := range c.Traces {
		b, err := plotter.NewBarChart(t.values(len(c.X.Categories)), width)
		if err != nil {
			return err
		}
		b.LineStyle.Width = 0
		b.Color = t.colour()
		b.Offset = width * (vg.Length(i) - (side-1)/2)
		p.Add(b)
		key.add(t.Name, b)
		if err := drawRanges(p, t, b.Offset); err != nil {
			return err
		}
	}
	return nil
}

// ranges draws error bars from the lowest to the highest run, at an offset from their positions.
type ranges struct {
	*plotter.YErrorBars
	offset vg.Length
}

func (r ranges) Plot(c draw.Canvas, p *plot.Plot) {
	c.Push()
	c.Translate(vg.Point{X: r.offset})
	r.YErrorBars.Plot(c, p)
	c.Pop()
}

type rangedPoints struct {
	plotter.XYs
	plotter.YErrors
}

func drawRanges(p *plot.Plot, t Trace, offset vg.Length) error {
	var points rangedPoints
	for i := range t.Low {
		y, low, high := t.Y[i], t.Low[i], t.High[i]
		if !y.Finite() || !low.Finite() || !high.Finite() || low == high {
			continue
		}
		points.XYs = append(points.XYs, plotter.XY{X: float64(t.X[i]), Y: float64(y)})
		e := struct{ Low, High float64 }{float64(low - y), float64(high - y)}
		points.YErrors = append(points.YErrors, e)
	}
	if len(points.XYs) == 0 {
		return nil
	}
	b, err := plotter.NewYErrorBars(points)
	if err != nil {
		return err
	}
	b.LineStyle = draw.LineStyle{Color: color.Gray{0x33}, Width: vg.Points(0.8)}
	p.Add(ranges{b, offset})
	return nil
}
