package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/warmpath/warmpath/test/turns"
)

// fleet is the slot rig: four engines on which load and hits are all there is. Each has four slots that do not slow each other down
// and a cache for six prefixes of 2,000 tokens. A request takes 100 ms, and 0.1 ms for each token that is not cached.
type fleet struct {
	turns.Processes
	binary string
	urls   []string
}

func startFleet(ctx context.Context, binary string, firstPort int) (*fleet, error) {
	f := &fleet{binary: binary}
	for i := range replicas {
		u := "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(firstPort+i))
		if err := f.start(ctx, u); err != nil {
			f.Stop()
			return nil, err
		}
		f.urls = append(f.urls, u)
	}
	return f, nil
}

// start runs an engine at a URL and waits until it is healthy.
func (f *fleet) start(ctx context.Context, engine string) error {
	c := exec.Command(f.binary, "emulate", "--listen", strings.TrimPrefix(engine, "http://"), "--model", turns.Model,
		"--preset", "slots", "--slots", "4", "--cache-tokens", "12800")
	c.Stderr = os.Stderr
	if err := f.Run(c); err != nil {
		return err
	}
	return turns.Await(ctx, engine, func() (*http.Response, error) { return http.Get(engine + "/health") })
}

// imbalance is the busiest engine's answers since it started over the mean.
func (f *fleet) imbalance() (float64, error) {
	busiest, sum := 0.0, 0.0
	for _, u := range f.urls {
		n, err := figure(u, "vllm:request_success_total")
		if err != nil {
			return 0, err
		}
		busiest, sum = max(busiest, n), sum+n
	}
	if sum == 0 {
		return 0, nil
	}
	return busiest * replicas / sum, nil
}

// killBusiest kills the engine that has the most requests open, without a word, and returns its URL.
func (f *fleet) killBusiest() (string, error) {
	busiest, most := 0, -1.0
	for i, u := range f.urls {
		running, err := figure(u, "vllm:num_requests_running")
		if err != nil {
			return "", err
		}
		if running > most {
			busiest, most = i, running
		}
	}
	return f.urls[busiest], f.Processes[busiest].Process.Kill()
}

// figure is the sum of an engine's series of that name.
func figure(engine, name string) (float64, error) {
	resp, err := http.Get(engine + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	sum := 0.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, name+"{") {
			n, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
			if err != nil {
				return 0, fmt.Errorf("%s: %q: %w", engine, line, err)
			}
			sum += n
		}
	}
	return sum, lines.Err()
}
