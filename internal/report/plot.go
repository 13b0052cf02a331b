package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The size of a plot. A page scales it to its width.
const (
	plotWidth  = vg.Length(720)
	plotHeight = vg.Length(300)
)

// palette is that of Okabe and Ito, which people with any kind of colour blindness can tell apart, without its yellow, which is
// too light for lines. https://jfly.uni-koeln.de/color/
var palette = []color.NRGBA{
	{R: 0x00, G: 0x72, B: 0xb2, A: 0xff}, {R: 0xd5, G: 0x5e, B: 0x00, A: 0xff}, {R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff}, {R: 0xe6, G: 0x9f, B: 0x00, A: 0xff}, {R: 0x56, G: 0xb4, B: 0xe9, A: 0xff},
	{R: 0x44, G: 0x44, B: 0x44, A: 0xff},
}

// dashes tell the series apart where there is no colour. There is no common divisor with the palette, so that the pairs repeat late.
var dashes = [][]vg.Length{nil, {7, 3}, {2, 2}, {9, 3, 2, 3}}

var (
	ink   = color.NRGBA{R: 0x33, G: 0x33, B: 0x33, A: 0xff}
	faint = color.NRGBA{R: 0xe2, G: 0xe2, B: 0xe2, A: 0xff}
)

func seriesColor(series int) color.NRGBA { return palette[series%len(palette)] }

func seriesDashes(series int) []vg.Length { return dashes[series%len(dashes)] }

func (l *Line) width() vg.Length {
	if l.Thin {
		return 1
	}
	return 2.2
}

// svg draws a chart as an SVG element.
func (c *Chart) svg() ([]byte, error) {
	x, y := c.ranges()
	p := plot.New()
	p.BackgroundColor = color.Transparent
	var xTicks, yTicks []plot.Tick
	x, xTicks = c.X.of(x, false)
	y, yTicks = c.Y.of(y, true)
	if len(c.Groups) > 0 {
		x, xTicks = groupAxis(c.Groups)
	}
	style(&p.X, c.X, x, xTicks)
	style(&p.Y, c.Y, y, yTicks)
	p.Y.Label.Padding = 6
	p.Add(grid{x: len(c.Groups) == 0})
	for i := range c.Bars {
		p.Add(bars{c, i})
	}
	for i := range c.Lines {
		p.Add(polyline{&c.Lines[i], c.X.Log, c.Y.Log})
	}
	for i, m := range c.Marks {
		p.Add(mark{m, i})
	}
	canvas := vgsvg.New(plotWidth, plotHeight)
	p.Draw(draw.Crop(draw.New(canvas), 2, -12, 2, -4))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, fmt.Errorf("chart %q: %w", c.Title, err)
	}
	return embeddable(out.Bytes()), nil
}

// embeddable takes the prologue off a document, and names fonts that other machines have: they are as wide as Liberation Sans.
func embeddable(document []byte) []byte {
	if i := bytes.Index(document, []byte("<svg")); i >= 0 {
		document = document[i:]
	}
	return bytes.ReplaceAll(document, []byte("font-family:Liberation Sans"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif"))
}

// ranges are those of all that is drawn, before they are rounded.
func (c *Chart) ranges() (x, y span) {
	x, y = span{math.Inf(1), math.Inf(-1)}, span{math.Inf(1), math.Inf(-1)}
	for i := range c.Lines {
		for _, p := range c.Lines[i].Points {
			if drawable(p, c.X.Log, c.Y.Log) {
				x.add(p.X)
				y.add(p.Y)
			}
		}
	}
	for i := range c.Bars {
		for _, v := range c.Bars[i].Values {
			y.add(v)
		}
	}
	for _, m := range c.Marks {
		x.add(m.X)
	}
	return x.orUnit(), y.orUnit()
}

// orUnit is the span itself, or 0 to 1 if nothing is in it.
func (s span) orUnit() span {
	if s.max < s.min {
		return span{0, 1}
	}
	return s
}

func drawable(p Point, xLog, yLog bool) bool {
	return !math.IsNaN(p.X+p.Y) && !math.IsInf(p.X+p.Y, 0) && (!xLog || p.X > 0) && (!yLog || p.Y > 0)
}

func groupAxis(groups []string) (span, []plot.Tick) {
	ticks := make([]plot.Tick, len(groups))
	for i, name := range groups {
		ticks[i] = plot.Tick{Value: float64(i), Label: name}
	}
	return span{-0.5, float64(len(groups)) - 0.5}, ticks
}

// sans is the font of all text in a plot.
func sans(size vg.Length) font.Font {
	return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
}

func style(axis *plot.Axis, a Axis, s span, ticks []plot.Tick) {
	axis.Min, axis.Max = s.min, s.max
	axis.Tick.Marker = plot.ConstantTicks(ticks)
	if a.Log {
		axis.Scale = plot.LogScale{}
	}
	axis.Label.Text = a.Label
	axis.Label.TextStyle.Font = sans(11)
	axis.Label.TextStyle.Color = ink
	axis.Label.Padding = 4
	axis.Tick.Label.Font = sans(10)
	axis.Tick.Label.Color = ink
	axis.Tick.Length = 4
	axis.Tick.Color = ink
	axis.Color = ink
	axis.Width = 0.7
	axis.Padding = 0
}

// grid draws a faint line at each labelled tick.
type grid struct{ x bool }

// Plot implements plot.Plotter.
func (g grid) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	line := draw.LineStyle{Color: faint, Width: 0.7}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(line, c.Min.X, toY(t.Value), c.Max.X, toY(t.Value))
		}
	}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if g.x && !t.IsMinor() && t.Value >= p.X.Min && t.Value <= p.X.Max {
			c.StrokeLine2(line, toX(t.Value), c.Min.Y, toX(t.Value), c.Max.Y)
		}
	}
}

// maxDots is how many points a line may have to get a dot at each: they say where values are and where there is only a line.
const maxDots = 24

type polyline struct {
	*Line
	xLog, yLog bool
}

// Plot implements plot.Plotter.
func (l polyline) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	var points []vg.Point
	for _, point := range l.Points {
		if drawable(point, l.xLog, l.yLog) {
			points = append(points, vg.Point{X: toX(point.X), Y: toY(point.Y)})
		}
	}
	c.StrokeLines(draw.LineStyle{Color: seriesColor(l.Series), Width: l.width(), Dashes: seriesDashes(l.Series)}, c.ClipLinesXY(points)...)
	if len(points) > maxDots {
		return
	}
	for _, point := range points {
		c.DrawGlyph(draw.GlyphStyle{Color: seriesColor(l.Series), Radius: l.width() + 0.6, Shape: draw.CircleGlyph{}}, point)
	}
}

// bars draws one series of a chart's bars; the series share the room of a group.
type bars struct {
	chart *Chart
	index int
}

// groupWidth is how much of the room between two groups their bars take.
const groupWidth = 0.78

// Plot implements plot.Plotter.
func (b bars) Plot(c draw.Canvas, p *plot.Plot) {
	toX, toY := p.Transforms(&c)
	width := groupWidth / float64(len(b.chart.Bars))
	series := b.chart.Bars[b.index]
	for group, v := range series.Values {
		left := float64(group) - groupWidth/2 + float64(b.index)*width
		x0, x1, y0, y1 := toX(left), toX(left+0.92*width), toY(0), toY(v)
		c.FillPolygon(seriesColor(series.Series), []vg.Point{{X: x0, Y: y0}, {X: x1, Y: y0}, {X: x1, Y: y1}, {X: x0, Y: y1}})
	}
}

// mark draws the index-th mark, its label below those of the marks before it, so that neighbours do not cover each other.
type mark struct {
	Mark
	index int
}

// Plot implements plot.Plotter.
func (m mark) Plot(c draw.Canvas, p *plot.Plot) {
	toX, _ := p.Transforms(&c)
	x := toX(m.X)
	c.StrokeLine2(draw.LineStyle{Color: ink, Width: 1, Dashes: []vg.Length{3, 2}}, x, c.Min.Y, x, c.Max.Y)
	text := p.X.Tick.Label
	text.XAlign, text.YAlign = draw.XLeft, draw.YTop
	x += 4
	if text.Width(m.Label) > c.Max.X-x {
		text.XAlign, x = draw.XRight, x-8
	}
	c.FillText(text, vg.Point{X: x, Y: c.Max.Y - 2 - vg.Length(13*m.index)}, m.Label)
}
