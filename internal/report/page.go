package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{"isBlock": isBlock}).Parse(pageText))

// isBlock reports whether a text is laid out in lines.
func isBlock(text string) bool { return strings.Contains(strings.TrimSpace(text), "\n") }

// pageView is what page.html shows.
type pageView struct {
	*Report
	Figures []figure
}

// figure is a drawn Chart.
type figure struct {
	*Chart
	SVG  template.HTML
	Keys []key
}

// key is one entry of a legend.
type key struct {
	Name, Color, Dashes string
	Width               float64
	Bar                 bool
}

// WriteHTML writes one page that needs no other file, no script and no network.
func (r *Report) WriteHTML(w io.Writer) error {
	view := pageView{Report: r}
	for i := range r.Charts {
		c := &r.Charts[i]
		svg, err := c.svg()
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		// All text in it has been escaped by the SVG writer.
		view.Figures = append(view.Figures, figure{Chart: c, SVG: template.HTML(svg), Keys: c.legend()})
	}
	if err := page.Execute(w, view); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// legend is empty if there is only one thing to see.
func (c *Chart) legend() []key {
	var keys []key
	for i := range c.Lines {
		if l := &c.Lines[i]; l.Name != "" {
			keys = append(keys, key{Name: l.Name, Color: hex(l.Series), Dashes: dashList(l.Series), Width: l.width().Points()})
		}
	}
	for i := range c.Bars {
		if b := &c.Bars[i]; b.Name != "" {
			keys = append(keys, key{Name: b.Name, Color: hex(b.Series), Bar: true})
		}
	}
	return keys
}

func hex(series int) string {
	c := seriesColor(series)
	return fmt.Sprintf("#%02x%02x%02x", c.R, c.G, c.B)
}

func dashList(series int) string {
	list := ""
	for _, d := range seriesDashes(series) {
		list += fmt.Sprintf("%g ", d.Points())
	}
	return list
}
