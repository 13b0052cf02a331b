package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

func TestEndpointComesIntoServiceWithItsReplicas(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", `"VariantName":"v","ModelName":"cold","InitialInstanceCount":3,"InstanceType":"ml.g5.xlarge","InitialVariantWeight":0.3,
		"RoutingConfig":{"RoutingStrategy":"PREFIX_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":4096,"ConcurrencyThreshold":8}}`,
		`"VariantName":"w","ModelName":"m"`)
	p.endpoint(t, "Chat", "c")
	if got := p.status(t, "chat"); got != "Creating" || len(p.router.served("Chat")) != 0 {
		t.Errorf("with a pool that has nothing ready: %s, served by %v; want Creating, by nothing", got, p.router.served("Chat"))
	}
	if _, held := p.router.applied["Chat"]; !held {
		t.Error("the router does not hold the name")
	}
	p.now = p.now.Add(time.Minute)
	p.router.set("cold", 2)
	p.advance()
	routing := map[string]any{"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": map[string]any{"PrefixLength": 4096.0, "ConcurrencyThreshold": 8.0}}
	same(t, "description", map[string]any{
		"EndpointName": "Chat", "EndpointArn": arnPrefix + "endpoint/chat", "EndpointConfigName": "c", "EndpointStatus": "InService",
		"CreationTime": 1796004098.5, "LastModifiedTime": 1796004158.5,
		"ProductionVariants": []any{
			map[string]any{"VariantName": "v", "CurrentWeight": 0.3, "DesiredWeight": 0.3, "CurrentInstanceCount": 2.0, "DesiredInstanceCount": 3.0, "RoutingConfig": routing},
			map[string]any{"VariantName": "w", "CurrentWeight": 1.0, "DesiredWeight": 1.0, "CurrentInstanceCount": 2.0, "DesiredInstanceCount": 1.0},
		},
	}, p.describe(t, "CHAT"))
	same(t, "variants of the router", []config.Variant{
		{Name: "v", Pool: "cold", Weight: 0.3, Routing: config.Routing{Strategy: "PREFIX_AWARE", PrefixLength: 4096, ConcurrencyThreshold: 8}},
		{Name: "w", Pool: "m", Weight: 1, Routing: config.Routing{Strategy: "RANDOM"}},
	}, p.router.served("Chat"))
}

func TestPendingDeploymentIsShown(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", `"VariantName":"v","ModelName":"cold","InstanceType":"ml.g5.xlarge"`)
	p.endpoint(t, "e", "c")
	got := p.describe(t, "e")
	same(t, "summary", map[string]any{
		"EndpointConfigName": "c", "StartTime": 1796004098.5,
		"ProductionVariants": []any{map[string]any{
			"VariantName": "v", "CurrentWeight": 1.0, "DesiredWeight": 1.0, "CurrentInstanceCount": 0.0, "DesiredInstanceCount": 1.0, "InstanceType": "ml.g5.xlarge",
			"VariantStatus": []any{map[string]any{"Status": "Creating", "StartTime": 1796004098.5}},
		}},
	}, got["PendingDeploymentSummary"].(map[string]any))
	if _, there := got["ProductionVariants"]; there || got["EndpointConfigName"] != "c" {
		t.Errorf("got %v, want the name of the configuration and no variants yet", got)
	}
}

func TestEndpointThatGetsNoReplicaFails(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", `"VariantName":"v","ModelName":"m"`, `"VariantName":"w","ModelName":"cold","ContainerStartupHealthCheckTimeoutInSeconds":90`)
	p.endpoint(t, "e", "c")
	p.now = p.now.Add(90*time.Second - time.Millisecond)
	p.advance()
	if got := p.status(t, "e"); got != "Creating" {
		t.Fatalf("just before its time: %s, want Creating", got)
	}
	p.now = p.now.Add(time.Millisecond)
	p.advance()
	got := p.describe(t, "e")
	want := "The primary container for production variant w did not pass the ping health check: no replica of the pool cold was ready within 90 seconds."
	if got["EndpointStatus"] != "Failed" || got["FailureReason"] != want {
		t.Errorf("got %v, want Failed because %s", got, want)
	}
	p.router.set("cold", 1)
	p.advance()
	if got := p.status(t, "e"); got != "Failed" || len(p.router.served("e")) != 0 {
		t.Errorf("later: %s, want Failed for good", got)
	}
	p.must(t, "DeleteEndpoint", `{"EndpointName":"e"}`)
	p.advance()
	p.endpoint(t, "e", "c")
	if got := p.status(t, "e"); got != "InService" {
		t.Errorf("made again: %s, want InService", got)
	}
}

func TestUpdateServesTheOldUntilTheNewIsReady(t *testing.T) {
	p := newPlane(t)
	p.config(t, "old", okVariant)
	p.config(t, "new", `"VariantName":"v","ModelName":"cold"`)
	p.endpoint(t, "e", "old")
	update := func() { p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"new"}`); p.advance() }

	update()
	got := p.describe(t, "e")
	if got["EndpointStatus"] != "Updating" || got["EndpointConfigName"] != "old" || got["PendingDeploymentSummary"].(map[string]any)["EndpointConfigName"] != "new" {
		t.Errorf("got %v, want Updating from old to new", got)
	}
	if v := p.router.served("e"); v[0].Pool != "m" {
		t.Errorf("served by %v, want the old pool", v)
	}
	p.now = p.now.Add(startupTimeout)
	p.advance()
	got = p.describe(t, "e")
	if reason, _ := got["FailureReason"].(string); got["EndpointStatus"] != "InService" || got["EndpointConfigName"] != "old" ||
		!strings.HasSuffix(reason, "The update to endpoint configuration new was given up; old stays in service.") {
		t.Errorf("got %v, want the old one in service, and why", got)
	}

	update()
	if reason, there := p.describe(t, "e")["FailureReason"]; there {
		t.Errorf("a new update is under way, and still: %v", reason)
	}
	p.router.set("cold", 1)
	p.advance()
	got = p.describe(t, "e")
	if _, failed := got["FailureReason"]; failed || got["EndpointStatus"] != "InService" || got["EndpointConfigName"] != "new" || p.router.served("e")[0].Pool != "cold" {
		t.Errorf("got %v, want the new one in service", got)
	}
}

func TestWeights(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant, `"VariantName":"w","ModelName":"n","InitialVariantWeight":2`)
	p.endpoint(t, "e", "c")
	p.router.set("n", 0) // a weight is for the variants in service, ready or not
	p.must(t, "UpdateEndpointWeightsAndCapacities", `{"EndpointName":"e","DesiredWeightsAndCapacities":[{"VariantName":"w","DesiredWeight":0,"DesiredInstanceCount":7}]}`)
	want := map[string]any{"VariantName": "w", "CurrentWeight": 2.0, "DesiredWeight": 0.0, "CurrentInstanceCount": 0.0, "DesiredInstanceCount": 7.0}
	got := p.describe(t, "e")
	same(t, "while updating", want, got["ProductionVariants"].([]any)[1].(map[string]any))
	if _, pending := got["PendingDeploymentSummary"]; pending || got["EndpointStatus"] != "Updating" {
		t.Errorf("got %v, want Updating without a deployment", got)
	}
	if err := os.Mkdir(p.path+".next", 0o700); err != nil { // it cannot be saved yet
		t.Fatal(err)
	}
	p.advance()
	same(t, "while it cannot be saved", got, p.describe(t, "e"))
	if err := os.Remove(p.path + ".next"); err != nil {
		t.Fatal(err)
	}
	p.advance()
	want["CurrentWeight"] = 0.0
	got = p.describe(t, "e")
	same(t, "when updated", want, got["ProductionVariants"].([]any)[1].(map[string]any))
	if got["EndpointStatus"] != "InService" || p.router.served("e")[1].Weight != 0 {
		t.Errorf("got %v, want InService with the new weight", got)
	}
}

func TestRetainedProperties(t *testing.T) {
	tests := []struct {
		name, retain  string
		weight, count float64
	}{
		{"nothing", ``, 5, 6},
		{"everything", `,"RetainAllVariantProperties":true`, 3, 4},
		{"all but weights", `,"RetainAllVariantProperties":true,"ExcludeRetainedVariantProperties":[{"VariantPropertyType":"DesiredWeight"}]`, 5, 4},
		{"all but counts", `,"RetainAllVariantProperties":true,"ExcludeRetainedVariantProperties":[{"VariantPropertyType":"DesiredInstanceCount"},{"VariantPropertyType":"DataCaptureConfig"}]`, 3, 6},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPlane(t)
			p.config(t, "old", okVariant)
			p.config(t, "new", `"VariantName":"other","ModelName":"n"`, okVariant+`,"InitialVariantWeight":5,"InitialInstanceCount":6`)
			p.endpoint(t, "e", "old")
			p.must(t, "UpdateEndpointWeightsAndCapacities", `{"EndpointName":"e","DesiredWeightsAndCapacities":[{"VariantName":"v","DesiredWeight":3,"DesiredInstanceCount":4}]}`)
			p.advance()
			p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"new"`+test.retain+`}`)
			p.advance()
			v := p.describe(t, "e")["ProductionVariants"].([]any)[1].(map[string]any)
			if v["DesiredWeight"] != test.weight || v["DesiredInstanceCount"] != test.count {
				t.Errorf("got %v, want weight %g and count %g", v, test.weight, test.count)
			}
		})
	}
}

func TestEveryStrategyOfTheFileIsTakenByAPI(t *testing.T) {
	p := newPlane(t)
	for _, strategy := range config.Strategies() {
		settings := ""
		if strategy == "PREFIX_AWARE" {
			settings = `,"PrefixAwareRoutingConfig":{"PrefixLength":1024,"ConcurrencyThreshold":1}`
		}
		name := strings.ReplaceAll(strategy, "_", "-")
		p.config(t, name, okVariant+`,"RoutingConfig":{"RoutingStrategy":"`+strategy+`"`+settings+`}`)
		p.endpoint(t, name, name)
		if got := p.router.served(name)[0].Routing.Strategy; got != strategy {
			t.Errorf("got %s, want %s", got, strategy)
		}
	}
}

func TestDeletedConfigStaysInService(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	p.endpoint(t, "e", "c")
	p.must(t, "DeleteEndpointConfig", `{"EndpointConfigName":"c"}`)
	if got := p.describe(t, "e"); got["EndpointStatus"] != "InService" || got["EndpointConfigName"] != "c" {
		t.Errorf("got %v, want it in service still", got)
	}
}

func TestDeletedEndpointIsShownUntilItIsGone(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	p.endpoint(t, "e", "c")
	p.must(t, "DeleteEndpoint", `{"EndpointName":"e"}`)
	if got := p.status(t, "e"); got != "Deleting" {
		t.Errorf("got %s, want Deleting", got)
	}
	p.advance()
	if got := p.call(t, "DescribeEndpoint", `{"EndpointName":"e"}`); got.body["__type"] != "ValidationException" {
		t.Errorf("got %v, want none", got.body)
	}
}

func TestDeploymentConfigIsRemembered(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	const policy = `"DeploymentConfig":{"BlueGreenUpdatePolicy":{"TrafficRoutingConfiguration":{"Type":"ALL_AT_ONCE"},"TerminationWaitInSeconds":60}}`
	want := map[string]any{"BlueGreenUpdatePolicy": map[string]any{"TrafficRoutingConfiguration": map[string]any{"Type": "ALL_AT_ONCE"}, "TerminationWaitInSeconds": 60.0}}
	p.must(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c",`+policy+`}`)
	p.advance()
	same(t, "policy", want, p.describe(t, "e")["LastDeploymentConfig"].(map[string]any))
	p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c","RetainDeploymentConfig":true}`)
	p.advance()
	same(t, "retained policy", want, p.describe(t, "e")["LastDeploymentConfig"].(map[string]any))
	p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	p.advance()
	if got, there := p.describe(t, "e")["LastDeploymentConfig"]; there {
		t.Errorf("got %v, want none", got)
	}
}

// What the waiters of boto3 and Terraform poll for, in their time.
func TestWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t)
		p.o.Now = time.Now
		p.config(t, "c", `"VariantName":"v","ModelName":"cold"`)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); p.Run(ctx) }()
		wait := func(until func(a answer) bool) (polls int) {
			for ; polls < 120; polls++ {
				if until(p.call(t, "DescribeEndpoint", `{"EndpointName":"e"}`)) {
					return polls
				}
				time.Sleep(30 * time.Second)
			}
			t.Fatal("the waiter has given up")
			return 0
		}
		p.must(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
		time.AfterFunc(95*time.Second, func() { p.router.set("cold", 1) })
		if n := wait(func(a answer) bool { return a.body["EndpointStatus"] == "InService" }); n != 4 {
			t.Errorf("in service after %d polls, want 4", n)
		}
		p.must(t, "DeleteEndpoint", `{"EndpointName":"e"}`)
		synctest.Wait()
		if n := wait(func(a answer) bool { return a.body["__type"] == "ValidationException" }); n != 0 {
			t.Errorf("gone after %d polls, want at once", n)
		}
		if _, held := p.router.applied["e"]; held {
			t.Error("the router still has it")
		}
		cancel()
		<-done
	})
}

func TestWhatTheRouterRefusesIsNotMade(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	p.router.refuse = errRefused
	a := p.call(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	if a.body["__type"] != "ValidationException" || !strings.Contains(a.message(), errRefused.Error()) {
		t.Errorf("got %v, want a ValidationException that says why", a.body)
	}
	if a := p.call(t, "DescribeEndpoint", `{"EndpointName":"e"}`); a.code == http.StatusOK {
		t.Error("the endpoint is there")
	}
	p.router.refuse = nil
	p.must(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	p.router.refuse = errRefused // a reload has taken the pool away meanwhile
	p.advance()
	got := p.describe(t, "e")
	if reason, _ := got["FailureReason"].(string); got["EndpointStatus"] != "Failed" || !strings.Contains(reason, errRefused.Error()) {
		t.Errorf("got %v, want Failed, and why", got)
	}
	p.router.refuse = nil
	p.open(t)
	same(t, "after a restart", got, p.describe(t, "e"))
}

func TestWhatIsNotSavedIsNotMade(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	if err := os.Mkdir(p.path+".next", 0o700); err != nil {
		t.Fatal(err)
	}
	a := p.call(t, "CreateEndpoint", `{"EndpointName":"e","EndpointConfigName":"c"}`)
	if a.code != http.StatusInternalServerError || a.body["__type"] != "InternalFailure" || strings.Contains(a.message(), filepath.Dir(p.path)) {
		t.Errorf("got %d %v, want InternalFailure without a path", a.code, a.body)
	}
	if _, held := p.router.applied["e"]; held {
		t.Error("the router has kept the endpoint")
	}
	if err := os.Remove(p.path + ".next"); err != nil {
		t.Fatal(err)
	}
	p.endpoint(t, "e", "c")
	if got := p.status(t, "e"); got != "InService" {
		t.Errorf("afterwards: %s, want InService", got)
	}
}

func TestAStateFileThatCannotBeMadeIsNoticedAtOnce(t *testing.T) {
	p := newPlane(t)
	o := p.o
	o.StateFile = filepath.Join(t.TempDir(), "none", "state.json")
	if _, err := Open(o); err == nil || !strings.Contains(err.Error(), o.StateFile) {
		t.Errorf("without the directory: got %v, want an error that names the file", err)
	}
	p.config(t, "c", okVariant)
	p.endpoint(t, "e", "c")
	if err := os.Mkdir(p.path+".next", 0o700); err != nil { // it cannot be replaced any more, and still be read
		t.Fatal(err)
	}
	p.open(t)
	if got := p.status(t, "e"); got != "InService" {
		t.Errorf("got %s, want what was made before in service", got)
	}
}

func TestManyCallersAtOnce(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	ctx, cancel := context.WithCancel(t.Context())
	var running, callers sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	for i := range 4 {
		name := fmt.Sprintf("e%d", i)
		callers.Go(func() {
			for range 5 {
				p.call(t, "CreateEndpoint", `{"EndpointName":"`+name+`","EndpointConfigName":"c"}`)
				p.call(t, "ListEndpoints", `{"StatusEquals":"InService"}`)
				p.call(t, "UpdateEndpoint", `{"EndpointName":"`+name+`","EndpointConfigName":"c"}`)
				p.call(t, "DescribeEndpoint", `{"EndpointName":"e0"}`)
				p.call(t, "DeleteEndpoint", `{"EndpointName":"`+name+`"}`)
			}
		})
	}
	callers.Wait()
	cancel()
	running.Wait()
	if err := p.Server.state.Load().validate(); err != nil {
		t.Error(err)
	}
	same(t, "what the router has", p.Endpoints(), p.router.applied)
	before := p.everything(t)
	p.open(t)
	same(t, "after a restart", before, p.everything(t))
}

func TestBrokenOffRequest(t *testing.T) {
	p := newPlane(t)
	r := httptest.NewRequest(http.MethodPost, "/", io.MultiReader(strings.NewReader("{"), brokenReader{}))
	r.Header.Set("X-Amz-Target", "SageMaker.ListEndpoints")
	if a := p.send(t, r); a.body["__type"] != "SerializationException" {
		t.Errorf("got %v", a.body)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, errors.New("connection reset") }
