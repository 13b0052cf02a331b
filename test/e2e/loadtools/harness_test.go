package loadtools

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestRecorderWritesDownWhatItPassesOn(t *testing.T) {
	bodies := []string{`{"prompt": "a <b> ü",  "n":1}`, `{"prompt":"c"}`}
	var passed []string
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		passed = append(passed, string(body))
		fmt.Fprint(w, request.URL.Path)
	}))
	defer target.Close()
	r := record(t, target.URL)
	post := func(body string) (status int, answer string) {
		response, err := http.Post(r.url+"/v1/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	for _, body := range bodies {
		if _, answer := post(body); answer != "/v1/completions" {
			t.Errorf("answer %q, want the target's", answer)
		}
	}
	if status, _ := post("{\n}"); status != http.StatusBadRequest {
		t.Errorf("body of two lines: status %d, want %d: it would break the trace", status, http.StatusBadRequest)
	}
	path, sent := r.trace(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, body := range bodies {
		want += `\{"timestamp":[0-9.]+,"path":"/v1/completions","body":` + regexp.QuoteMeta(body) + `\}` + "\n"
	}
	if !regexp.MustCompile("^" + want + "$").Match(text) {
		t.Errorf("trace %s, want %s", text, want)
	}
	if strings.Join(passed, "\n") != strings.Join(bodies, "\n") || sent != len(bodies) {
		t.Errorf("%d sent, target got %q, want %q", sent, passed, bodies)
	}
}

func TestLoggedTTFT(t *testing.T) {
	line := func(ms string) string {
		return "level=INFO msg=request first_byte_ms=1 first_token_ms=" + ms + " model_ms=2\n"
	}
	for log, want := range map[string]float64{
		line("30.5") + "level=INFO msg=serving\n" + line("10") + line("20"): 20,
		line("10") + line("20"): 15,
	} {
		if got := loggedTTFT([]byte(log)); got != want {
			t.Errorf("%q: got %v, want %v", log, got, want)
		}
	}
	if got := loggedTTFT([]byte("level=INFO msg=serving\n")); !math.IsNaN(got) {
		t.Errorf("nothing logged: got %v, want NaN", got)
	}
}
