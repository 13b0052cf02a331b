package main

import (
	"bytes"
	_ "embed" // for the page
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/warmpath/warmpath/test/turns"
)

//go:embed page.md.tmpl
var pageText string

// page is what the template fills in.
type page struct {
	Date, System, Filter      string
	Cores                     int
	Workloads, Sizes          []string
	Rows                      []row
	Clients, Warmup, Requests int
	Draws                     string
	Several                   bool // draws
	Rate                      float64
	Rounds                    int
	LossAfter, LossFor        time.Duration
	LossThen                  time.Duration
	Window, LoadPercent       int
	Packages                  string
}

// row is a router in the page. What was not measured is a dash.
type row struct {
	Product, Policy, Version, Command string
	Throughput                        []string // by workload
	Behind                            []string // TTFT, hit and imbalance of each workload
	CPU, Added                        []string // by size
	Failed, Back                      string   // when a replica was killed
	FailedBefore, LossP99             string
}

const dash = "-"

// write makes the page of what was measured.
func (c *comparison) write() ([]byte, error) {
	p := page{
		Date: time.Now().Format("2 January 2006"), System: runtime.GOOS + "/" + runtime.GOARCH, Filter: c.only, Cores: runtime.NumCPU(),
		Clients: clients, Warmup: warmup, Requests: c.requests, Draws: draws(c.seeds), Several: c.seeds > 1, Rate: c.pace.Rate, Rounds: c.pace.Rounds,
		LossAfter: lossAfter, LossFor: lossFor, LossThen: lossThen, Window: window, LoadPercent: loadPercent, Packages: packages(),
	}
	for _, w := range workloads {
		p.Workloads = append(p.Workloads, w.name)
	}
	for _, s := range sizes {
		p.Sizes = append(p.Sizes, s.Name)
	}
	for _, e := range c.entries {
		p.Rows = append(p.Rows, e.row())
	}
	p.Rows = append(p.Rows, floorRow(c.floor))
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, p)
	return out.Bytes(), err
}

func draws(n int) string {
	if n == 1 {
		return "one draw of each workload"
	}
	return fmt.Sprintf("%d draws of each workload", n)
}

// packages are those of PyPI, in words.
func packages() string {
	names := slices.Sorted(maps.Keys(pypi))
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

func (e *entry) row() row {
	r := row{
		Product: e.product, Policy: e.setting, Version: e.version, Command: e.command(),
		Failed: dash, Back: dash, FailedBefore: dash, LossP99: dash,
	}
	failed, requests := 0, 0
	for i := range workloads {
		r.addQuality(e, i)
		for _, f := range e.quality[i] {
			failed, requests = failed+f.Failed+f.Refused, requests+f.Requests
		}
	}
	if requests > 0 {
		r.FailedBefore = fmt.Sprintf("%d of %d", failed, requests)
	}
	r.CPU, r.Added = costs(e.cost)
	if len(e.lost) > 0 {
		r.Failed, r.Back, r.LossP99 = lost(e.lost)
	}
	return r
}

// addQuality adds the figures of a workload.
func (r *row) addQuality(e *entry, workload int) {
	if len(e.quality[workload]) == 0 {
		r.Throughput, r.Behind = append(r.Throughput, dash), append(r.Behind, dash, dash, dash)
		return
	}
	typical := func(of func(figures) float64) float64 { return middle(e.each(workload, of)) }
	r.Throughput = append(r.Throughput, spread(e.each(workload, func(f figures) float64 { return f.RequestsPerSecond })))
	p50, p90 := typical(func(f figures) float64 { return f.TTFT.P50 }), typical(func(f figures) float64 { return f.TTFT.P90 })
	r.Behind = append(r.Behind, fmt.Sprintf("%.0f / %.0f", p50, p90), percent(typical(figures.hit)),
		fmt.Sprintf("%.2f", typical(func(f figures) float64 { return f.imbalance })))
}

// spread is the median of values and, if there are several, the lowest and the highest.
func spread(values []float64) string {
	if len(values) == 1 {
		return fmt.Sprintf("%.0f", values[0])
	}
	return fmt.Sprintf("%.0f (%.0f-%.0f)", middle(values), slices.Min(values), slices.Max(values))
}

func floorRow(floor []turns.Result) row {
	r := row{Product: "bare Go proxy", Policy: dash, Failed: dash, Back: dash, FailedBefore: dash, LossP99: dash}
	for range workloads {
		r.Throughput, r.Behind = append(r.Throughput, dash), append(r.Behind, dash, dash, dash)
	}
	r.CPU, r.Added = costs(floor)
	return r
}

// costs are the cells of CPU time and added latency, by size. Where answers were broken, a cell says so.
func costs(results []turns.Result) (cpu, added []string) {
	for i := range sizes {
		if i >= len(results) {
			cpu, added = append(cpu, dash), append(added, dash)
			continue
		}
		r := results[i]
		cpu = append(cpu, fmt.Sprintf("%.2f ms", milliseconds(r.CPU)))
		note := ""
		if r.Broken > 0 {
			note = fmt.Sprintf(" (%d broken)", r.Broken)
		}
		added = append(added, fmt.Sprintf("%.2f ms%s", milliseconds(r.P50), note))
	}
	return cpu, added
}

// lost adds up the failures of all draws, and gives the medians of how long the replica was without requests and of the 99th percentiles.
func lost(losses []loss) (failed, back, p99 string) {
	requests, sum, kinds := 0, 0, map[string]int{}
	var quantiles, idle []float64
	for _, l := range losses {
		idle = append(idle, l.back.Seconds())
		requests, sum = requests+l.requests, sum+l.failed
		for kind, n := range l.kinds {
			kinds[kind] += n
		}
		quantiles = append(quantiles, l.p99)
	}
	failed = fmt.Sprintf("%d of %d", sum, requests)
	var named []string
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		named = append(named, fmt.Sprintf("%d %s", kinds[kind], kind))
	}
	if len(named) > 0 {
		failed += ": " + strings.Join(named, ", ")
	}
	back = fmt.Sprintf("%.1f s", middle(idle))
	if middle(idle) >= lossThen.Seconds() {
		back = fmt.Sprintf("not within %v", lossThen)
	}
	return failed, back, fmt.Sprintf("%.0f", middle(quantiles))
}

// command is how the router is started, as a person would write it.
func (e *entry) command() string {
	l := launch{Host: "127.0.0.1", Port: "PORT", Metrics: "METRICS_PORT", Engines: []string{"ENGINE..."}, Config: e.config, Folder: "."}
	return filepath.Base(e.binary) + " " + strings.Join(e.args(l), " ")
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
