package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noFiles is a file system without files.
func noFiles(string) ([]byte, error) { return nil, os.ErrNotExist }

// parse parses text in an environment without files.
func parse(t *testing.T, text string, env fakeEnv) *Config {
	t.Helper()
	cfg, err := Parse("warmpath.yaml", []byte(text), env.lookUp, noFiles)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const minimal = `
pools: {engines: {static: ["http://127.0.0.1:8000"]}}
endpoints: {chat: {variants: [{pool: engines}]}}
`

func TestDefaults(t *testing.T) {
	want := &Config{
		Data: Data{
			Listen: "127.0.0.1:8080", MaxBody: 64 << 20, MaxDecodedBody: 256 << 20, MaxHeader: 64 << 10,
			HeaderTimeout: seconds(10), BodyTimeout: seconds(30), IdleTimeout: seconds(90), DecisionHeaders: true,
			Drain: Drain{Delay: seconds(5), Limit: seconds(600)},
		},
		Admin: Admin{Listen: "127.0.0.1:8081"},
		Pools: map[string]Pool{"engines": {
			Engine: "generic", Static: []string{"http://127.0.0.1:8000"},
			Health:    Health{Enabled: true, Interval: seconds(1), Timeout: seconds(1), UnhealthyAfter: 3, HealthyAfter: 1},
			Metrics:   Metrics{Enabled: true, Interval: seconds(5), Timeout: seconds(2)},
			Ejection:  Ejection{ConsecutiveErrors: 5, BaseTime: seconds(1), MaxTime: seconds(30)},
			SlowStart: seconds(10), ConnectTimeout: seconds(1), CancelOnDisconnect: true,
		}},
		Endpoints: map[string]Endpoint{"chat": {
			InvocationsPath: "/invocations", Usage: "pass", SessionTTL: seconds(1200), Timeouts: Timeouts{Idle: seconds(600)}, Retry: Retry{MaxAttempts: 3, Budget: 0.2},
			Variants: []Variant{{Name: "engines", Pool: "engines", Weight: 1, Routing: Routing{Strategy: "KV_AWARE"}}},
		}},
	}
	if diff := cmp.Diff(want, parse(t, minimal, nil)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func seconds(n int) Duration { return Duration(time.Duration(n) * time.Second) }

func TestNullAndCommentedOutKeysKeepDefaults(t *testing.T) {
	want := parse(t, minimal, nil)
	got := parse(t, "data:\nadmin: ~\n"+strings.Replace(minimal, "engines: {", "engines: {health: , dns: null, ", 1), nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestEnvironmentChangesValuesNotStructure(t *testing.T) {
	text := `
data: {max_connections: "${MAX}", header_timeout: "${NONE:-3s}"}
pools: {engines: {static: ["http://${HOST}:8000"], api_key: "${KEY}"}}
endpoints: {chat: {models: ["${MODEL}"], variants: [{pool: engines}]}}
`
	cfg := parse(t, text, fakeEnv{"MAX": "7", "HOST": "h", "KEY": "k: {v: [", "MODEL": "a, b]}\nx: y"})
	if cfg.Data.MaxConnections != 7 || cfg.Data.HeaderTimeout != seconds(3) {
		t.Errorf("numbers are %v and %v, want 7 and 3s", cfg.Data.MaxConnections, cfg.Data.HeaderTimeout)
	}
	if got := cfg.Pools["engines"]; got.Static[0] != "http://h:8000" || got.APIKey.Reveal() != "k: {v: [" {
		t.Errorf("pool is %+v", got)
	}
	if got := cfg.Endpoints["chat"].Models; len(got) != 1 || got[0] != "a, b]}\nx: y" {
		t.Errorf("models are %q, want one", got)
	}
}

func TestAliasesShareValues(t *testing.T) {
	cfg := parse(t, `
pools:
  a: {static: ["http://a:1"], health: &fast {interval: 200ms}}
  b: {static: ["http://b:1"], health: *fast}
endpoints: {chat: {variants: [{pool: a}, {pool: b}]}}
`, nil)
	if got := cfg.Pools["b"].Health.Interval; got != Duration(200*time.Millisecond) {
		t.Errorf("interval is %v, want 200ms", got)
	}
}

func TestAliasBombIsRefused(t *testing.T) {
	wide := strings.Repeat("*v, ", 1000)
	text := "x: &v {pool: a}\nendpoints:\n  a: &e {variants: &l [" + wide + "]}\n"
	for i := range 200 {
		text += "  e" + strings.Repeat("x", i+1) + ": *e\n"
	}
	_, err := Parse("warmpath.yaml", []byte(text), fakeEnv{}.lookUp, noFiles)
	if err == nil || !strings.Contains(err.Error(), "more than 50000 values") {
		t.Errorf("error is %.300v, want a limit", err)
	}
}

func TestSecretFile(t *testing.T) {
	read := func(path string) ([]byte, error) {
		return map[string][]byte{"/etc/warmpath/key": []byte("hunter2\r\n"), "/run/key": []byte("hunter3")}[path], nil
	}
	for file, want := range map[string]string{"key": "hunter2", "/run/key": "hunter3"} {
		text := strings.Replace(minimal, "static:", "api_key_file: "+file+", static:", 1)
		cfg, err := Parse("/etc/warmpath/warmpath.yaml", []byte(text), fakeEnv{}.lookUp, read)
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.Pools["engines"].APIKey.Reveal(); got != want {
			t.Errorf("key of %s is %q, want %q", file, got, want)
		}
	}
}

func TestFilePathStartsAtTheConfiguration(t *testing.T) {
	text := strings.Replace(minimal, `static: ["http://127.0.0.1:8000"]`, "file: replicas.yaml", 1)
	cfg, err := Parse("/etc/warmpath/warmpath.yaml", []byte(text), fakeEnv{}.lookUp, noFiles)
	if err != nil {
		t.Fatal(err)
	}
	if got := cfg.Pools["engines"].File; got != "/etc/warmpath/replicas.yaml" {
		t.Errorf("file is %s", got)
	}
	want := "/etc/warmpath/warmpath.yaml:2:25: pools.engines.file: cannot be read yet: there is no such file; check the path; the pool is empty until it can"
	if got := cfg.Warnings.Error(); got != want {
		t.Errorf("warnings are %q, want %q", got, want)
	}
}

func TestUnusedPoolIsAWarning(t *testing.T) {
	cfg := parse(t, strings.Replace(minimal, "pools: {", `pools: {spare: {static: ["http://b:1"]}, `, 1), nil)
	want := "warmpath.yaml:2:9: pools.spare: no variant uses this pool; name it in a variant, or remove it"
	if got := cfg.Warnings.Error(); got != want {
		t.Errorf("warnings are %q, want %q", got, want)
	}
}

func TestLoadSaysWhatToDoAboutAMissingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "warmpath.yaml")
	_, err := Load(path, fakeEnv{}.lookUp)
	var one *Error
	if !errors.As(err, &one) || one.File != path || one.Message != "cannot be read: there is no such file; check the path" {
		t.Errorf("error is %v", err)
	}
}

// TestC096_PortsOfOneAddressAreReplicas has four engines on one machine.
func TestC096_PortsOfOneAddressAreReplicas(t *testing.T) {
	cfg := parse(t, strings.Replace(minimal, `["http://127.0.0.1:8000"]`,
		`["http://10.0.0.1:8000", "http://10.0.0.1:8001", "http://10.0.0.1:8002", "http://10.0.0.1:8003"]`, 1), nil)
	if got := len(cfg.Pools["engines"].Static); got != 4 {
		t.Errorf("%d replicas, want 4", got)
	}
}

// TestC097_InconsistentIntervalsAreRefused has pairs of times that are each valid and contradict one another.
func TestC097_InconsistentIntervalsAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, pool, endpoint, want string }{
		{"probes faster than they can mean anything", "health: {interval: 50ms}", "", `"50ms" is out of range; write 100ms to 1h`},
		{"longest ejection below the first", "ejection: {base_time: 40s}", "", "ejections grow from the one to the other"},
		{"first byte after the end", "", "timeouts: {first_byte: 2m, total: 1m}", "would always end the answer before"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(minimal, "static:", tc.pool+", static:", 1)
			text = strings.Replace(text, "variants:", tc.endpoint+", variants:", 1)
			text = strings.NewReplacer("{, ", "{").Replace(text)
			_, err := Parse("warmpath.yaml", []byte(text), fakeEnv{}.lookUp, noFiles)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error is %v, want %q", err, tc.want)
			}
		})
	}
	parse(t, strings.Replace(minimal, "static:", "health: {interval: 1s, timeout: 5s}, static:", 1), nil)
}

func TestFromFlags(t *testing.T) {
	got, err := FromFlags(Flags{
		Listen: "127.0.0.1:9", Replicas: []string{"http://a:1", "http://b:1"}, Engine: "vllm",
		Strategy: "PREFIX_AWARE", PrefixLength: 4096, ConcurrencyThreshold: 16,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := parse(t, `
data: {listen: "127.0.0.1:9"}
pools: {default: {engine: vllm, static: ["http://a:1", "http://b:1"]}}
endpoints:
  default:
    variants:
      - {name: default, pool: default, routing: {strategy: PREFIX_AWARE, prefix_length: 4096, concurrency_threshold: 16}}
`, nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-file +flags:\n%s", diff)
	}
}

func TestFromFlagsErrorsNameFlags(t *testing.T) {
	for _, tc := range []struct {
		name  string
		flags Flags
		want  string
	}{
		{"nothing", Flags{}, "--replica: is missing; give the address of each engine, such as --replica http://127.0.0.1:8000"},
		{"twice", Flags{Replicas: []string{"http://a:1", "http://a:1/"}}, "--replica[1]: is the same replica as --replica[0]; remove one"},
		{"strategy", Flags{Replicas: []string{"http://a:1"}, Strategy: "random"}, `--strategy: "random" is not a known strategy; did you mean "RANDOM"?`},
		{"engine", Flags{Replicas: []string{"http://a:1"}, Engine: "vlm"}, `--engine: "vlm" is not a known engine; did you mean "vllm"?`},
		{"range", Flags{Replicas: []string{"http://a:1"}, Strategy: "PREFIX_AWARE", PrefixLength: 70000, ConcurrencyThreshold: 1},
			"--prefix-length: Value '70000' at '--prefix-length' failed to satisfy constraint: Member must have value less than or equal to 65536"},
		{"knob missing", Flags{Replicas: []string{"http://a:1"}, Strategy: "PREFIX_AWARE", PrefixLength: 1024},
			"--concurrency-threshold: is missing; PREFIX_AWARE needs it, 1 to 1024"},
		{"knob refused", Flags{Replicas: []string{"http://a:1"}, PrefixLength: 1024},
			"--prefix-length: has no meaning with KV_AWARE; remove it, or use PREFIX_AWARE"},
		{"listen", Flags{Replicas: []string{"http://a:1"}, Listen: "8080"},
			`--listen: "8080" is not an address to listen on; write HOST:PORT, such as 127.0.0.1:8080 or :8080`},
		{"collision", Flags{Replicas: []string{"http://a:1"}, AdminListen: ":8080"}, "--admin-listen: collides with --listen; give it another port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg, err := FromFlags(tc.flags)
			if err == nil || err.Error() != tc.want || cfg != nil {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
		})
	}
}

func TestOverride(t *testing.T) {
	cfg := parse(t, minimal, nil)
	if err := cfg.Override(Flags{Listen: ":0", AdminListen: "[::1]:9"}); err != nil || cfg.Data.Listen != ":0" || cfg.Admin.Listen != "[::1]:9" {
		t.Errorf("addresses are %s and %s, %v", cfg.Data.Listen, cfg.Admin.Listen, err)
	}
	if err := cfg.Override(Flags{Strategy: "RANDOM", Engine: "vllm", Replicas: []string{"http://a:1"}}); err == nil || strings.Count(err.Error(), "cannot be combined") != 3 {
		t.Errorf("error is %v, want one for each flag", err)
	}
	if err := cfg.Override(Flags{Listen: "x"}); err == nil || !strings.HasPrefix(err.Error(), "--listen: ") {
		t.Errorf("error is %v, want one about --listen", err)
	}
}

func TestRecordStartsAtTheFile(t *testing.T) {
	text := strings.Replace(minimal, "variants:", "record: {file: chat.jsonl}, variants:", 1)
	cfg, err := Parse(filepath.Join("etc", "warmpath.yaml"), []byte(text), fakeEnv{}.lookUp, noFiles)
	if err != nil {
		t.Fatal(err)
	}
	want := &Record{File: filepath.Join("etc", "chat.jsonl"), Sample: 1, MaxSize: 64 << 20, Keep: 4}
	if diff := cmp.Diff(want, cfg.Endpoints["chat"].Record); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
