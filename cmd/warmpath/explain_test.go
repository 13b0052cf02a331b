package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// filesIn reads a directory, with what tells a file that was replaced from one that was left.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = info.ModTime().String() + "\n" + string(text)
	}
	return files
}

// The files that a configuration names may be those of a router that runs.
func TestExplainWritesNothing(t *testing.T) {
	const made = `{"version":1,"endpoint_configs":{},"endpoints":{"made":{"name":"made","created":1,"modified":1,"status":"InService",
		"current":{"endpoint_config":"c","started":1,"settings":{},"variants":[{"desired_weight":1,"desired_instance_count":1,"settings":{"VariantName":"v","ModelName":"p"}}]}},
		"waiting":{"name":"waiting","created":1,"modified":1,"status":"Creating",
		"next":{"endpoint_config":"c","started":1,"settings":{},"variants":[{"desired_weight":1,"desired_instance_count":1,"settings":{"VariantName":"v","ModelName":"p"}}]}}}}`
	const text = `pools: {p: {engine: vllm, static: [http://127.0.0.1:1]}}
endpoints: {chat: {variants: [{pool: p}], record: {file: requests.jsonl}}}
control_plane: {state_file: state.json}
`
	dir := t.TempDir()
	body := filepath.Join(t.TempDir(), "body.json")
	for path, content := range map[string]string{
		filepath.Join(dir, "warmpath.yaml"): text, filepath.Join(dir, "state.json"): made, filepath.Join(dir, "requests.jsonl"): "{}\n",
		body: `{"messages":[{"role":"user","content":"hello"}]}`,
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := filesIn(t, dir)
	for path, want := range map[string]string{
		"/v1/chat/completions": "chat", "/endpoints/made/invocations": "made", "/endpoints/waiting/invocations": "Endpoint waiting not found.",
	} {
		out, err := explain(t, body, "-c", filepath.Join(dir, "warmpath.yaml"), "--path", path)
		if err != nil {
			out = err.Error()
		}
		if !strings.Contains(out, want) {
			t.Errorf("%s: got %s, want %q in it", path, out, want)
		}
	}
	if diff := cmp.Diff(before, filesIn(t, dir)); diff != "" {
		t.Errorf("the files have changed (-before +after):\n%s", diff)
	}
}

func TestExplainWithHeaders(t *testing.T) {
	dir := t.TempDir()
	file, body := filepath.Join(dir, "warmpath.yaml"), filepath.Join(dir, "body.json")
	const text = `pools: {a: {static: [http://127.0.0.1:1]}, b: {static: [http://127.0.0.1:2]}}
endpoints: {shared: {variants: [{name: main}], inference_components: [{name: llama, pool: a}, {name: qwen, pool: b}]}}
`
	for path, content := range map[string]string{file: text, body: `{"prompt":"hello"}`} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const path = "/endpoints/shared/invocations"
	if out, err := explain(t, body, "-c", file, "--path", path, "-H", "x-amzn-sagemaker-inference-component: qwen"); err != nil || !strings.Contains(out, "127.0.0.1:2") {
		t.Errorf("got %s, %v, want the replica of qwen", out, err)
	}
	if _, err := explain(t, body, "-c", file, "--path", path); err == nil || !strings.Contains(err.Error(), "name one in X-Amzn-SageMaker-Inference-Component.") {
		t.Errorf("without a component: got %v", err)
	}
	if _, err := explain(t, body, "-c", file, "-H", "nonsense"); err == nil || !strings.Contains(err.Error(), `--header "nonsense" is not NAME:VALUE`) {
		t.Errorf("a header without a value: got %v", err)
	}
}

// explain runs the command with the file body as its input.
func explain(t *testing.T, body string, args ...string) (stdout string, err error) {
	t.Helper()
	in, err := os.Open(body)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out strings.Builder
	root := newRootCommand()
	root.SetIn(in)
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append([]string{"explain"}, args...))
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}
