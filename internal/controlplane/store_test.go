package controlplane

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// writerVariable makes the test binary a process that saves one state after the other into the file that it names.
const writerVariable = "WARMPATH_TEST_STATE_FILE"

// generation is a state that says which one it is, larger and smaller by turns.
func generation(n int) *state {
	s := emptyState()
	for i := range 1 + n%7*20 {
		name := fmt.Sprintf("g%d-%d", n, i)
		model := productionVariant{VariantName: "v", ModelName: "m"}
		s.Configs[name] = endpointConfig{Name: name, Settings: configSettings{ProductionVariants: []productionVariant{model}}}
	}
	return s
}

// generationOf reads which one a state is, -1 if it is not a whole one.
func generationOf(s *state) (n int) {
	for name := range s.Configs {
		if _, err := fmt.Sscanf(name, "g%d-", &n); err == nil && cmp.Diff(generation(n).Configs, s.Configs) == "" {
			return n
		}
		return -1
	}
	return 0
}

// writeForever saves and says so, until it is killed.
func writeForever(path string) {
	for file, n := (&store{path: path}), 1; ; n++ {
		if err := file.save(generation(n)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

func TestKilledWriterLeavesAWholeState(t *testing.T) {
	t.Parallel()
	for round := range 8 {
		path := filepath.Join(t.TempDir(), "state.json")
		writer := exec.Command(os.Args[0])
		writer.Env = append(os.Environ(), writerVariable+"="+path)
		out, err := writer.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := writer.Start(); err != nil {
			t.Fatal(err)
		}
		saved, lines := 0, bufio.NewScanner(out)
		for saved < 5*round && lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &saved); err != nil {
				t.Fatalf("the writer says: %s", lines.Text())
			}
		}
		_ = writer.Process.Kill()
		for lines.Scan() { // what it managed to say until then
			_, _ = fmt.Sscan(lines.Text(), &saved)
		}
		_ = writer.Wait()
		found, err := (&store{path: path}).load()
		if err != nil {
			t.Fatalf("killed after %d: %v", saved, err)
		}
		if n := generationOf(found); n < saved || n > saved+1 {
			t.Errorf("killed after state %d was saved: the file holds state %d", saved, n)
		}
	}
}

func TestATemporaryFileThatWasLeftDoesNoHarm(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(path+".next", []byte(strings.Repeat("{", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 5} {
		if err := (&store{path: path}).save(generation(n)); err != nil {
			t.Fatal(err)
		}
		s, err := (&store{path: path}).load()
		if err != nil {
			t.Fatal(err)
		}
		if got := generationOf(s); got != n {
			t.Errorf("got state %d, want %d", got, n)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// A damaged file is refused, not taken for a smaller state.
func FuzzDamagedState(f *testing.F) {
	path := filepath.Join(f.TempDir(), "state.json")
	p := prepared(f)
	if err := (&store{path: path}).save(p.Server.state.Load()); err != nil {
		f.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for cut := 0; cut < len(whole); cut += 97 {
		f.Add(whole[:cut])
	}
	f.Add(whole)
	f.Add([]byte(`{"version":2,"endpoint_configs":{},"endpoints":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		damaged := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(damaged, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := (&store{path: damaged}).load()
		if len(data) < len(whole)-1 && bytes.HasPrefix(whole, data) && err == nil {
			t.Fatalf("%d of %d bytes were taken for a state", len(data), len(whole))
		}
		if err != nil {
			return
		}
		s.serving() // whatever is accepted can be served
		if err := (&store{path: damaged}).save(s); err != nil {
			t.Fatal(err)
		}
		if again, err := (&store{path: damaged}).load(); err != nil || cmp.Diff(s, again) != "" {
			t.Errorf("saved and loaded again: %v\n%s", err, cmp.Diff(s, again))
		}
	})
}

func TestTwoProcessesDoNotUndoEachOther(t *testing.T) {
	p := newPlane(t)
	p.config(t, "a", okVariant)
	other := *p
	other.open(t)
	other.config(t, "b", okVariant)
	if a := p.call(t, "DeleteEndpointConfig", `{"EndpointConfigName":"a"}`); a.body["__type"] != "InternalFailure" {
		t.Errorf("a change on top of what another process has saved: got %v, want InternalFailure", a.body)
	}
	p.open(t)
	for _, name := range []string{"a", "b"} {
		p.must(t, "DescribeEndpointConfig", `{"EndpointConfigName":"`+name+`"}`)
	}
	if err := os.Remove(p.path); err != nil {
		t.Fatal(err)
	}
	if a := p.call(t, "DeleteEndpointConfig", `{"EndpointConfigName":"a"}`); a.body["__type"] != "InternalFailure" {
		t.Errorf("without the file: got %v, want InternalFailure", a.body)
	}
}

func TestUnusableStateFiles(t *testing.T) {
	for text, want := range map[string]string{
		"": "restore it from a backup",
		`{"version":2,"endpoint_configs":{},"endpoints":{}}`: "its version is 2, and this Warmpath reads 1",
		`{"version":1}`: "it has no endpoint_configs or no endpoints",
		`{"version":1,"endpoint_configs":{"a":{"name":"b","created":1,"settings":{}}},"endpoints":{}}`:                     `endpoint configuration "b" stands under "a"`,
		`{"version":1,"endpoint_configs":{"b":{"name":"b","created":1,"settings":{}}},"endpoints":{}}`:                     `endpoint configuration "b": ValidationException: 1 validation error`,
		`{"version":1,"endpoint_configs":{},"endpoints":{"e":{"name":"E","created":1,"modified":1,"status":"InService"}}}`: `endpoint "E": status "InService" does not fit its deployments`,
		`{"version":1,"endpoint_configs":{},"endpoints":{"e":{"name":"f","created":1,"modified":1,"status":"Failed"}}}`:    `endpoint "f" stands under "e"`,
		`{"version":1,"endpoint_configs":{},"endpoints":{},"more":1}`:                                                      "more",
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&store{path: path}).load(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
}
