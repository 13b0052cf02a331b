package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warmpath/warmpath/internal/bench"
	"github.com/warmpath/warmpath/test/turns"
)

func TestEveryRouterIsToldItsAddresses(t *testing.T) {
	engines := []string{"http://127.0.0.1:9001", "http://127.0.0.1:9002"}
	for _, r := range routers {
		e := entry{router: r}
		l, err := e.prepare(engines, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		told := strings.Join(r.args(l), " ")
		if r.config != "" {
			text, err := l.render(r.config)
			if err != nil {
				t.Fatalf("%s: %v", r.label(), err)
			}
			told = string(text)
		}
		for _, port := range []string{l.Port, "9001", "9002"} {
			if !strings.Contains(told, port) {
				t.Errorf("%s: nothing says %s:\n%s", r.label(), port, told)
			}
		}
		if hashes := strings.Contains(strings.ToLower(told), "4096"); r.hash && !hashes {
			t.Errorf("%s: no window of %d:\n%s", r.label(), window, told)
		}
		if strings.Contains(told, "0.0.0.0") {
			t.Errorf("%s: listens beyond loopback:\n%s", r.label(), told)
		}
	}
}

func TestFirstVersion(t *testing.T) {
	for text, want := range map[string]string{
		"HAProxy version 2.6.12-1+deb12u4 2026/10/17 - https://haproxy.org/": "2.6.12-1+deb12u4",
		"nginx version: nginx/1.22.1":                                        "1.22.1",
		"no digits":                                                          "unknown",
	} {
		if got := firstVersion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestPage(t *testing.T) {
	hit := 0.95
	f := figures{&bench.Run{Requests: 600, Failed: 2, HitRate: &hit, RequestsPerSecond: 148.2, TTFT: bench.Quantiles{P50: 203.4, P90: 240}}, 1.04}
	measured := &entry{
		router: routers[0], software: software{version: "v1", binary: "bin/warmpath"}, quality: [][]figures{{f}, {f}, {f}},
		cost: []turns.Result{{CPU: 400 * time.Microsecond, P50: 250 * time.Microsecond}, {CPU: time.Millisecond, P50: 2 * time.Millisecond, Broken: 3}},
		lost: []loss{{requests: 600, failed: 3, kinds: map[string]int{"broken": 2, "http_502": 1}, p99: 300, back: time.Second}, {requests: 600, failed: 1, kinds: map[string]int{"broken": 1}, p99: 500, back: 2500 * time.Millisecond}},
	}
	bare := &entry{router: router{product: productHAProxy, setting: "leastconn", config: "haproxy.cfg", args: haproxy}, software: software{version: "2.6", binary: "/usr/sbin/haproxy"}, quality: make([][]figures, 3)}
	c := comparison{flags: flags{seeds: 1, requests: 600}, entries: []*entry{measured, bare}, floor: measured.cost[:1]}
	text, err := c.write()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"| Warmpath | KV_AWARE | 148 | 148 | 148 | 0.40 ms | 1.00 ms | 0.25 ms | 2.00 ms (3 broken) | 4 of 1200: 3 broken, 1 http_502 | 2.5 s |\n",
		"| HAProxy | leastconn | - | - | - | - | - | - | - | - | - |\n",
		"| bare Go proxy | - | - | - | - | 0.40 ms | - | 0.25 ms | - | - | - |\n",
		"| Warmpath | KV_AWARE | 203 / 240 | 95.0 % | 1.04 | 203 / 240 | 95.0 % | 1.04 | 203 / 240 | 95.0 % | 1.04 | 500 | 6 of 1800 |\n",
		"| HAProxy | 2.6 | leastconn | `haproxy -db -f haproxy.cfg` |\n",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if links := regexp.MustCompile(`\]\(\.\./test/compare/([^)]+)\)`).FindAllSubmatch(text, -1); len(links) != 4 {
		t.Errorf("%d links to files, want 4", len(links))
	} else {
		for _, link := range links {
			if found, _ := filepath.Glob(string(link[1])); len(found) == 0 {
				t.Errorf("%s: no such file", link[1])
			}
		}
	}
}

func TestMiddle(t *testing.T) {
	got := []float64{middle(nil), middle([]float64{3, 1, 2}), middle([]float64{2, 1})}
	if diff := cmp.Diff([]float64{0, 2, 2}, got); diff != "" {
		t.Error(diff)
	}
}
