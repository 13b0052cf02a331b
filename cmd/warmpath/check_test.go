package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckKnowsWhatWasMadeByAPI(t *testing.T) {
	const made = `{"version":1,"endpoint_configs":{},"endpoints":{"chat":{"name":"Chat","created":1,"modified":1,"status":"Failed"}}}`
	file := filepath.Join(t.TempDir(), "warmpath.yaml")
	text := "pools: {p: {static: [http://127.0.0.1:1]}}\nendpoints: {chat: {variants: [{pool: p}]}}\ncontrol_plane: {state_file: state.json}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func() error {
		var out bytes.Buffer
		c := newCheckCommand()
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs([]string{"-c", file})
		c.SilenceErrors, c.SilenceUsage = true, true
		return c.Execute()
	}
	if err := check(); err != nil {
		t.Errorf("without a state file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(file), "state.json"), []byte(made), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), "endpoints.chat: the control plane has an endpoint of this name") {
		t.Errorf("with an endpoint of the same name: got %v, want an error that says so", err)
	}
}
