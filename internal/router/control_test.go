package router_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/router"
)

// controlled is a configuration with a control plane, whose endpoints' engines are asked as the fake ones want it.
func controlled(state, rest string) string {
	return "control_plane: {state_file: " + state + ", endpoints: {invocations_path: /v1/chat/completions}}\n" + rest
}

// control calls the control plane and gives the status and the answer.
func (s *site) control(t testing.TB, operation, body string) (int, map[string]any) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", "SageMaker."+operation)
	w := httptest.NewRecorder()
	s.ControlPlane().ServeHTTP(w, r)
	var answer map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %q: %v", operation, w.Body, err)
	}
	return w.Code, answer
}

func (s *site) mustControl(t testing.TB, operation, body string) {
	t.Helper()
	if status, answer := s.control(t, operation, body); status != http.StatusOK {
		t.Fatalf("%s %s: %d %v", operation, body, status, answer)
	}
}

// make creates an endpoint of one pool and waits until it is in service.
func (s *site) make(t testing.TB, name, pool string) {
	t.Helper()
	s.mustControl(t, "CreateEndpointConfig", `{"EndpointConfigName":"`+name+`","ProductionVariants":[{"VariantName":"v","ModelName":"`+pool+`","RoutingConfig":{"RoutingStrategy":"LEAST_OUTSTANDING_REQUESTS"}}]}`)
	s.mustControl(t, "CreateEndpoint", `{"EndpointName":"`+name+`","EndpointConfigName":"`+name+`"}`)
	s.reaches(t, name, "InService")
}

func (s *site) reaches(t testing.TB, name, status string) {
	t.Helper()
	eventually(t, name+" is "+status, func() bool {
		_, answer := s.control(t, "DescribeEndpoint", `{"EndpointName":"`+name+`"}`)
		return answer["EndpointStatus"] == status
	})
}

// invoke calls an endpoint by its name and gives the status and the variant that answered.
func (s *site) invoke(t testing.TB, name string) (status int, variant string) {
	t.Helper()
	resp, err := s.client.Post(s.data.URL+"/endpoints/"+name+"/invocations", "application/json", strings.NewReader(chatBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("x-Amzn-Invoked-Production-Variant")
}

func TestEndpointsByAPIAreServedBesideTheFiles(t *testing.T) {
	t.Parallel()
	a, b := newEngine(t), newEngine(t)
	state := filepath.Join(t.TempDir(), "state.json")
	file := controlled(state, strings.Replace(onePool(static(a), leastOutstanding), "endpoints:\n", "  q: {"+static(b)+", "+quick+"}\nendpoints:\n", 1))
	s := start(t, file)
	if status, _ := s.invoke(t, "made"); status < 400 {
		t.Errorf("before it is made: got %d, want an error", status)
	}
	s.make(t, "made", "q")
	for range 3 {
		if status, variant := s.invoke(t, "made"); status != http.StatusOK || variant != "v" {
			t.Errorf("got %d by variant %q, want 200 by v", status, variant)
		}
	}
	s.mustPost(t, 3) // the file's endpoint still answers to any model
	if x, y := a.requests.Load(), b.requests.Load(); x != 3 || y != 3 {
		t.Errorf("got %d and %d requests, want 3 for each engine", x, y)
	}
	s.reload(t, file+"# the same\n")
	if status, _ := s.invoke(t, "made"); status != http.StatusOK {
		t.Errorf("after a reload: got %d, want 200", status)
	}

	again := start(t, file) // with the same state, as after a restart
	if status, variant := again.invoke(t, "made"); status != http.StatusOK || variant != "v" {
		t.Errorf("after a restart: got %d by variant %q, want 200 by v", status, variant)
	}
	again.mustControl(t, "DeleteEndpoint", `{"EndpointName":"made"}`)
	eventually(t, "the endpoint is gone", func() bool {
		status, _ := again.control(t, "DescribeEndpoint", `{"EndpointName":"made"}`)
		return status == http.StatusBadRequest
	})
	if status, _ := again.invoke(t, "made"); status < 400 {
		t.Errorf("deleted: got %d, want an error", status)
	}
	again.mustPost(t, 1)
}

func TestTheAPIAndTheFileCannotClash(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	state := filepath.Join(t.TempDir(), "state.json")
	file := controlled(state, onePool(static(e), leastOutstanding))
	s := start(t, file)
	s.make(t, "made", "p")
	if status, answer := s.control(t, "CreateEndpoint", `{"EndpointName":"E","EndpointConfigName":"made"}`); status != http.StatusBadRequest || !strings.Contains(answer["message"].(string), "configuration file") {
		t.Errorf("a name of the file: got %d %v, want an error that says so", status, answer)
	}
	for name, text := range map[string]string{
		"endpoints.Made: the control plane has an endpoint of this name": strings.Replace(file, "  e: {", "  Made: {", 1),
		`pools.p: is missing; endpoint "made"`:                           strings.ReplaceAll(strings.ReplaceAll(file, "  p: {", "  q: {"), "pool: p", "pool: q"),
	} {
		s.write(t, text)
		if err := s.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want %s", err, name)
		}
		if status, _ := s.invoke(t, "made"); status != http.StatusOK {
			t.Errorf("after a refused reload: got %d, want 200", status)
		}
		cfg, err := config.Load(s.path, os.LookupEnv)
		if err != nil {
			t.Fatal(err)
		}
		if r, err := router.New(cfg, router.Options{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("at a start: got %v, %v, want %s", r, err, name)
		}
	}
}

func TestADamagedStateIsNotTakenForNone(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state.json")
	if err := os.WriteFile(state, []byte(`{"version":1,"endpoint_`), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Parse("warmpath.yaml", []byte(controlled(state, onePool("static: [http://127.0.0.1:1]", "RANDOM"))), os.LookupEnv, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := router.New(cfg, router.Options{}); err == nil || !strings.Contains(err.Error(), state) {
		t.Errorf("got %v, want an error that names the file", err)
	}
}

func TestServeWithAControlPlane(t *testing.T) {
	e := newEngine(t)
	text := "data: {listen: '127.0.0.1:0', drain: {delay: 0s, limit: 1s}}\nadmin: {listen: '127.0.0.1:0'}\n" +
		strings.Replace(controlled(filepath.Join(t.TempDir(), "state.json"), onePool(static(e), leastOutstanding)), "control_plane: {", "control_plane: {listen: '127.0.0.1:0', ", 1)
	s := start(t, text)
	cfg, err := config.Load(s.path, os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	l, err := router.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	req, err := http.NewRequest(http.MethodPost, "http://"+l.Control.Addr().String(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Amz-Target", "SageMaker.ListEndpoints")
	resp, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || string(answer) != `{"Endpoints":[]}` {
		t.Errorf("got %s, %v, want an empty list", answer, err)
	}
	cancel()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want nil", err)
	}
}
