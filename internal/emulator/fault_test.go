package emulator

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestParseFault(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Fault
	}{
		{"refuse", Fault{Kind: FaultRefuse}},
		{"reset,count=2,path=/v1/chat", Fault{Kind: FaultReset, Count: 2, Path: "/v1/chat"}},
		{"reset-mid-stream,after=3,count=2", Fault{Kind: FaultResetMidStream, After: 3, Count: 2}},
		{"status,code=502,probability=0.25", Fault{Kind: FaultStatus, Code: 502, Probability: 0.25}},
		{"rate-limit,retry-after=7", Fault{Kind: FaultRateLimit, RetryAfter: 7}},
		{"slow,factor=4,for=1.5s", Fault{Kind: FaultSlow, Factor: 4, For: 1500 * time.Millisecond}},
	} {
		got, err := ParseFault(tt.in)
		if err != nil {
			t.Errorf("ParseFault(%q): %v", tt.in, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("ParseFault(%q):\n%s", tt.in, diff)
		}
		if again, err := ParseFault(got.String()); err != nil || again != got {
			t.Errorf("%q does not survive String: %q, %v", tt.in, got, err)
		}
	}
}

func TestParseFaultErrors(t *testing.T) {
	for in, want := range map[string]string{
		"gremlin":               `kind "gremlin": not known; use one of refuse,`,
		"":                      `kind "": not known`,
		"reset,twice":           `"twice" is not KEY=VALUE`,
		"reset,often=1":         "often: not a key; use path,",
		"reset,count=x":         `count: "x" cannot be read`,
		"reset,count=-1":        "must not be negative",
		"reset,probability=2":   "probability: 2 is out of range",
		"reset,probability=NaN": "probability: NaN is out of range",
		"reset,after=3":         "after does not apply",
		"reset,code=500":        "code does not apply",
		"reset,retry-after=5":   "retry-after does not apply",
		"reset,factor=5":        "factor does not apply",
		"slow,factor=-1":        "factor: -1 is out of range",
		"slow,count=1":          "holds for the whole engine",
		"status,code=200":       "code: 200 is out of range",
		"hang,for=forever":      `for: "forever" cannot be read`,
	} {
		if _, err := ParseFault(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseFault(%q): got error %v, want %q in it", in, err, want)
		}
	}
}

func TestEveryFaultIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/emulator.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range faultKinds {
		if !strings.Contains(string(page), "| `"+kind+"` |") {
			t.Errorf("docs/emulator.md has no row for the fault %s", kind)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	for _, kind := range faultKinds {
		f.Add(kind)
		f.Add(kind + ",count=2,after=3,probability=0.5,path=/v1,for=2s")
	}
	f.Add("status,code=429")
	f.Fuzz(func(t *testing.T, script string) {
		fault, err := ParseFault(script)
		if err != nil {
			return
		}
		again, err := ParseFault(fault.String())
		if err != nil || !cmp.Equal(again, fault, cmpopts.EquateNaNs()) {
			t.Errorf("%q is %+v, its String %q is %+v, %v", script, fault, fault, again, err)
		}
	})
}

func FuzzBodies(f *testing.F) {
	for _, exchange := range wire {
		f.Add([]byte(exchange.body))
	}
	f.Add([]byte(`[{"kind":"slow","factor":3,"for":"1s"},"reset,count=2"]`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func([]byte) (job, error){
			func(b []byte) (job, error) { return parseChat(b) },
			func(b []byte) (job, error) { return parseCompletion(b) },
			func(b []byte) (job, error) { return parseEmbedding(b) },
			func(b []byte) (job, error) { return parseResponse(b) },
			func(b []byte) (job, error) { return parseMessages(b) },
			func(b []byte) (job, error) { return parseInvocation(b) },
		} {
			j, err := parse(body)
			for _, p := range j.prompts {
				if err == nil && len(p)%tokenBytes != 0 {
					t.Errorf("a prompt of %d bytes is not whole tokens", len(p))
				}
			}
			if err == nil && (j.choices < 1 || j.answerer == nil) {
				t.Errorf("accepted, but %d choices", j.choices)
			}
		}
		faults, err := parseFaults(body)
		for _, fault := range faults {
			if err == nil && fault.validate() != nil {
				t.Errorf("accepted the invalid fault %+v", fault)
			}
		}
	})
}

func TestFaultsCountAndMatch(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		err := s.SetFaults(Fault{Kind: FaultStatus, Path: "/v1/chat", Count: 2}, Fault{Kind: FaultStatus, Code: 500, Path: "/v1/comp", Probability: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for range 3 {
			got = append(got, do(s, "POST", "/v1/chat/completions", chatBody("x", 1, "")).Code)
		}
		if diff := cmp.Diff([]int{503, 503, 200}, got); diff != "" {
			t.Errorf("a fault with count 2:\n%s", diff)
		}
		struck := 0
		for range 200 {
			if do(s, "POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`).Code == 500 {
				struck++
			}
		}
		if struck < 70 || struck > 130 {
			t.Errorf("probability 0.5 struck %d of 200", struck)
		}
		s.ClearFaults(FaultStatus)
		if code := do(s, "POST", "/v1/completions", `{"prompt":"x"}`).Code; code != 200 {
			t.Errorf("after clearing: got %d", code)
		}
		if s.SetFaults(Fault{Kind: "gremlin"}) == nil {
			t.Error("an unknown kind: got no error")
		}
	})
}

func TestFaultsOverHTTP(t *testing.T) {
	virtual(t, Options{}, func(t *testing.T, s *Server) {
		w := do(s, "POST", "/emulator/faults", `[{"kind":"slow","factor":3,"for":"1.5s"},"reset,count=2"]`)
		want := `[{"kind":"slow","factor":3,"for":"1.5s"},{"kind":"reset","count":2}]`
		if got := w.Body.String(); w.Code != 200 || got != want {
			t.Errorf("POST: got %d %s, want %s", w.Code, got, want)
		}
		if got := do(s, "DELETE", "/emulator/faults?kind=reset", "").Body.String(); got != `[{"kind":"slow","factor":3,"for":"1.5s"}]` {
			t.Errorf("DELETE of a kind: got %s", got)
		}
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if got := do(s, "GET", "/emulator/faults", "").Body.String(); got != "[]" {
			t.Errorf("after its time: got %s", got)
		}
		for _, body := range []string{`{"kind":"gremlin"}`, `{"kind":"slow","for":"x"}`, `"reset,after=1"`, `[`, `[3]`, ``} {
			if got := do(s, "POST", "/emulator/faults", body); got.Code != 400 {
				t.Errorf("POST %s: got %d %s", body, got.Code, got.Body)
			}
		}
	})
}

func TestSlowAndStall(t *testing.T) {
	virtual(t, Options{Config: Config{Cost: flat}, Faults: []Fault{{Kind: FaultSlow, Factor: 3}}}, func(t *testing.T, s *Server) {
		ask := func() time.Duration {
			start := time.Now()
			do(s, "POST", "/v1/completions", `{"prompt":"`+strings.Repeat("x", 400)+`","max_tokens":1,"cache_salt":"`+start.String()+`"}`)
			return time.Since(start)
		}
		near(t, "three times slower", ask(), 300*time.Millisecond)
		if err := s.SetFaults(Fault{Kind: FaultSlow}); err != nil {
			t.Fatal(err)
		}
		near(t, "and twice that", ask(), 600*time.Millisecond)
		s.ClearFaults("")
		near(t, "well again", ask(), 100*time.Millisecond)
		if err := s.SetFaults(Fault{Kind: FaultStall, For: 5 * time.Second}); err != nil {
			t.Fatal(err)
		}
		near(t, "stalled for five seconds", ask(), 5100*time.Millisecond)
	})
}

func TestUnhealthyStrikesProbesOnly(t *testing.T) {
	virtual(t, Options{Faults: []Fault{{Kind: FaultUnhealthy, Count: 2}}}, func(t *testing.T, s *Server) {
		if code := do(s, "POST", "/v1/completions", `{"prompt":"x"}`).Code; code != 200 {
			t.Errorf("a completion got %d", code)
		}
		got := []int{do(s, "GET", "/health", "").Code, do(s, "GET", "/ping", "").Code, do(s, "GET", "/health", "").Code}
		if diff := cmp.Diff([]int{503, 503, 200}, got); diff != "" {
			t.Errorf("probes:\n%s", diff)
		}
	})
}

func TestStatusFaults(t *testing.T) {
	for _, tt := range []struct {
		fault, path, want string
		code              int
	}{
		{"status", "/v1/completions", `{"error":{"message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.","type":"Service Unavailable","param":null,"code":503}}`, 503},
		{"status,code=500", "/v1/completions", `{"error":{"message":"` + coreDied + `","type":"InternalServerError","param":null,"code":500}}`, 500},
		{"status,code=502", "/v1/completions", `{"error":{"message":"Bad Gateway","type":"Bad Gateway","param":null,"code":502}}`, 502},
		{"status", "/v1/messages", `{"type":"error","error":{"type":"Service Unavailable","message":"The engine is currently busy and cannot accept new requests. Please try again later or on a different instance."}}`, 503},
		{"rate-limit,retry-after=7", "/v1/completions", `{"error":{"message":"Too Many Requests","type":"Too Many Requests","param":null,"code":429}}`, 429},
	} {
		fault, err := ParseFault(tt.fault)
		if err != nil {
			t.Fatal(err)
		}
		virtual(t, Options{Faults: []Fault{fault}}, func(t *testing.T, s *Server) {
			w := do(s, "POST", tt.path, `{"prompt":"x"}`)
			if w.Code != tt.code || w.Body.String() != tt.want {
				t.Errorf("%s: got %d %s, want %s", tt.fault, w.Code, w.Body, tt.want)
			}
			if retry := w.Header().Get("Retry-After"); (tt.code == 429) != (retry == "7") {
				t.Errorf("%s: got Retry-After %q", tt.fault, retry)
			}
		})
	}
}
