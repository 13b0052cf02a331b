//go:build e2e

package fleet

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", configurationOf("PREFIX_AWARE", []string{"http://127.0.0.1:1"}))
	bad := file("bad.yaml", "data: {listen: 8080}\npools:\n  p:\n    static: [nowhere]\n    enigne: vllm\nendpoints:\n  e:\n    variants: [{pool: q}]\n")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		name   string
		args   []string
		stdin  string
		code   int
		stdout string // expressions that the outputs must match
		stderr string
	}{
		{name: "version", args: []string{"version"}, stdout: `^warmpath v0\.0\.0-e2e \(commit \w+, go1\.\d+`},
		{name: "help", args: []string{"--help"}, stdout: `(?s)Examples:.*warmpath serve -c`},
		{name: "no command", stdout: `(?s)Usage:`},
		{name: "help of a command", args: []string{"serve", "--help"}, stdout: `(?s)Examples:.*--replica http://`},
		{name: "unknown command", args: []string{"serv"}, code: 2, stderr: `"serv" is not a command; did you mean serve\?`},
		{name: "nothing like a command", args: []string{"xylophone"}, code: 2, stderr: "`warmpath --help` lists them"},
		{name: "unknown flag", args: []string{"serve", "--strateggy", "RANDOM"}, code: 2, stderr: `did you mean --strategy\?`},
		{name: "bad value", args: []string{"serve", "--replica", "http://127.0.0.1:1", "--strategy", "RANDON"}, code: 2, stderr: `--strategy.*RANDOM`},
		{name: "bad number", args: []string{"serve", "--prefix-length", "long"}, code: 2, stderr: `prefix-length`},
		{name: "out of range", args: []string{"serve", "--replica", "http://127.0.0.1:1", "--strategy", "PREFIX_AWARE", "--prefix-length", "10", "--concurrency-threshold", "4"}, code: 2, stderr: `--prefix-length.*1024`},
		{name: "extra word", args: []string{"serve", "now"}, code: 2, stderr: `"now" is not expected`},
		{name: "nothing to serve", args: []string{"serve"}, code: 2, stderr: `-c FILE.*--replica URL`},
		{name: "no such file", args: []string{"serve", "-c", filepath.Join(dir, "none.yaml")}, code: 2, stderr: `none\.yaml.*no such file`},
		{name: "port in use", args: []string{"serve", "-c", good, "--listen", taken.Addr().String()}, code: 1, stderr: `is in use; stop what uses it or choose another address with --listen`},
		{name: "check, good", args: []string{"check", "-c", good}, stdout: `good\.yaml: ok \(endpoints: 1, pools: 1\)`},
		{name: "check, bad", args: []string{"check", "-c", bad}, code: 2, stderr: `(?s)bad\.yaml:1:\d+:.*bad\.yaml:4:\d+:.*bad\.yaml:5:\d+:.*did you mean.*engine.*bad\.yaml:8:\d+:`},
		{name: "check without a file", args: []string{"check"}, code: 2, stderr: `-c FILE`},
		{name: "explain", args: []string{"explain", "-c", good}, stdin: chat(1, 1), stdout: `(?s)PREFIX_AWARE.*127\.0\.0\.1:1`},
		{name: "explain, broken body", args: []string{"explain", "-c", good}, stdin: "{", code: 1, stderr: `.`},
		{name: "explain, no router", args: []string{"explain", "--admin", "http://127.0.0.1:1"}, stdin: "{}", code: 1, stderr: `is --admin its admin listener\?`},
		{name: "emulate, bad fault", args: []string{"emulate", "--fault", "resett"}, code: 2, stderr: `did you mean reset`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var stdout output
			p := runWith(t, &stdout, strings.NewReader(tt.stdin), tt.args...)
			if code := p.exit(t, startLimit); code != tt.code {
				t.Errorf("got exit code %d, want %d", code, tt.code)
			}
			for _, out := range []struct{ name, got, want string }{{"output", stdout.String(), tt.stdout}, {"error output", p.stderr.String(), tt.stderr}} {
				if out.want == "" && out.got != "" || !regexp.MustCompile(out.want).MatchString(out.got) {
					t.Errorf("%s: got %q, want %q", out.name, out.got, out.want)
				}
			}
		})
	}
}
