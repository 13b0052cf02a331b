package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/warmpath/warmpath/test/turns"
)

// settle is how long a router that has answered gets to find the other replicas: some do one after the other.
const settle = time.Second

// start runs the router in front of engines and waits until it answers requests.
func (e *entry) start(ctx context.Context, started *turns.Processes, engines []string, folder string) (turns.Contender, error) {
	l, err := e.prepare(engines, folder)
	if err != nil {
		return turns.Contender{}, err
	}
	log, err := os.Create(filepath.Join(l.Folder, "log"))
	if err != nil {
		return turns.Contender{}, err
	}
	defer log.Close() // the process has its own
	c := exec.Command(e.binary, e.args(l)...)
	c.Env = append(os.Environ(), e.environment...)
	c.Stdout, c.Stderr = log, log
	if err := started.Run(c); err != nil {
		return turns.Contender{}, err
	}
	up := turns.Contender{Name: e.label(), URL: "http://" + l.Address(), PID: c.Process.Pid}
	if err := turns.Await(ctx, e.label(), func() (*http.Response, error) { return ask(up.URL) }); err != nil {
		return up, fmt.Errorf("%w\n%s", err, tail(log.Name()))
	}
	turns.Sleep(ctx, settle)
	return up, nil
}

// prepare chooses ports and writes the configuration.
func (e *entry) prepare(engines []string, parent string) (launch, error) {
	l := launch{Engines: engines, Hash: e.hash, Window: window, LoadPercent: loadPercent, MostOpen: mostOpen}
	addresses, err := turns.FreeAddresses(2)
	if err != nil {
		return l, err
	}
	if l.Host, l.Port, err = net.SplitHostPort(addresses[0]); err != nil {
		return l, err
	}
	if _, l.Metrics, err = net.SplitHostPort(addresses[1]); err != nil {
		return l, err
	}
	if l.Folder, err = os.MkdirTemp(parent, "router-"); err != nil || e.config == "" {
		return l, err
	}
	l.Config = filepath.Join(l.Folder, e.config)
	text, err := l.render(e.config)
	if err != nil {
		return l, err
	}
	return l, os.WriteFile(l.Config, text, 0o644)
}

// render fills in a configuration.
func (l launch) render(name string) ([]byte, error) {
	t, err := template.ParseFS(configs, name)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, l)
	return out.Bytes(), err
}

// HostPorts are the engines' addresses.
func (l launch) HostPorts() ([]*url.URL, error) {
	urls := make([]*url.URL, len(l.Engines))
	for i, engine := range l.Engines {
		var err error
		if urls[i], err = url.Parse(engine); err != nil {
			return nil, err
		}
	}
	return urls, nil
}

// ask sends a short request.
func ask(router string) (*http.Response, error) {
	const body = `{"model":"` + turns.Model + `","messages":[{"role":"user","content":"Are you there?"}],"max_tokens":1}`
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Post(router+"/v1/chat/completions", "application/json", strings.NewReader(body))
}

// tail is the end of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
