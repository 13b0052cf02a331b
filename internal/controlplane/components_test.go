package controlplane

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// hosting is an endpoint configuration to whose variant inference components are deployed.
const hosting = `{"EndpointConfigName":"hosting","ExecutionRoleArn":"arn:aws:iam::123456789012:role/r","ProductionVariants":[
	{"VariantName":"v","InitialInstanceCount":2,"InstanceType":"ml.g5.xlarge","RoutingConfig":{"RoutingStrategy":"LEAST_OUTSTANDING_REQUESTS"}}]}`

// newHost is a plane with an endpoint e in service, to which inference components can be deployed.
func newHost(t testing.TB) *plane {
	t.Helper()
	p := newPlane(t)
	p.must(t, "CreateEndpointConfig", hosting)
	p.endpoint(t, "e", "hosting")
	return p
}

// deploy makes an inference component of a pool, with further members, and lets it come into service if it can.
func (p *plane) deploy(t testing.TB, name, pool, more string) {
	t.Helper()
	p.must(t, "CreateInferenceComponent", `{"InferenceComponentName":"`+name+`","EndpointName":"e","Specification":{"ModelName":"`+pool+`"}`+more+`}`)
	p.advance()
}

func (p *plane) describeComponent(t testing.TB, name string) map[string]any {
	t.Helper()
	return p.must(t, "DescribeInferenceComponent", `{"InferenceComponentName":"`+name+`"}`)
}

// hosted lists the inference components that the router has of endpoint e.
func (p *plane) hosted() []config.InferenceComponent {
	p.router.mu.Lock()
	defer p.router.mu.Unlock()
	return p.router.applied["e"].InferenceComponents
}

func TestAnEndpointWithoutModelsIsInServiceAtOnce(t *testing.T) {
	p := newHost(t)
	got := p.describe(t, "e")
	same(t, "variants", []any{map[string]any{
		"VariantName": "v", "CurrentWeight": 1.0, "DesiredWeight": 1.0, "CurrentInstanceCount": 2.0, "DesiredInstanceCount": 2.0,
		"RoutingConfig": map[string]any{"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"},
	}}, got["ProductionVariants"])
	if got["EndpointStatus"] != "InService" {
		t.Errorf("got %v, want InService: it waits for no pool", got)
	}
	same(t, "variants of the router", []config.Variant{{Name: "v", Weight: 1, Routing: config.Routing{Strategy: "LEAST_OUTSTANDING_REQUESTS"}}}, p.router.served("e"))
}

func TestComponentComesIntoServiceWithItsReplicas(t *testing.T) {
	p := newHost(t)
	const specification = `{"ModelName":"cold","ComputeResourceRequirements":{"MinMemoryRequiredInMb":1024,"NumberOfAcceleratorDevicesRequired":1},
		"StartupParameters":{"ContainerStartupHealthCheckTimeoutInSeconds":600},"SchedulingConfig":{"PlacementStrategy":"SPREAD"},"DataCacheConfig":{"EnableCaching":true}}`
	got := p.must(t, "CreateInferenceComponent", `{"InferenceComponentName":"Llama","EndpointName":"E","VariantName":"v","Specification":`+specification+`,"RuntimeConfig":{"CopyCount":3}}`)
	same(t, "answer", map[string]any{"InferenceComponentArn": arnPrefix + "inference-component/llama"}, got)
	p.advance()
	if got := p.describeComponent(t, "llama"); got["InferenceComponentStatus"] != "Creating" || len(p.hosted()) != 0 {
		t.Errorf("with a pool that has nothing ready: %v, served %v; want Creating, not served", got, p.hosted())
	}
	p.now = p.now.Add(time.Minute)
	p.router.set("cold", 2)
	p.advance()
	want := map[string]any{
		"InferenceComponentName": "Llama", "InferenceComponentArn": arnPrefix + "inference-component/llama", "EndpointName": "e", "EndpointArn": arnPrefix + "endpoint/e",
		"VariantName": "v", "CreationTime": 1796004098.5, "LastModifiedTime": 1796004158.5, "InferenceComponentStatus": "InService",
		"Specification": map[string]any{
			"ModelName": "cold", "ComputeResourceRequirements": map[string]any{"MinMemoryRequiredInMb": 1024.0, "NumberOfAcceleratorDevicesRequired": 1.0},
			"StartupParameters": map[string]any{"ContainerStartupHealthCheckTimeoutInSeconds": 600.0}, "SchedulingConfig": map[string]any{"PlacementStrategy": "SPREAD"},
			"DataCacheConfig": map[string]any{"EnableCaching": true},
		},
		"RuntimeConfig": map[string]any{"DesiredCopyCount": 3.0, "CurrentCopyCount": 2.0},
	}
	same(t, "description", want, p.describeComponent(t, "LLAMA"))
	same(t, "components of the router", []config.InferenceComponent{{Name: "Llama", Pool: "cold", Variant: "v"}}, p.hosted())
	before := p.Endpoints()
	p.open(t)
	same(t, "after a restart", want, p.describeComponent(t, "llama"))
	same(t, "served after a restart", before, p.Endpoints())
}

func TestComponentThatGetsNoReplicaFails(t *testing.T) {
	p := newHost(t)
	p.must(t, "CreateInferenceComponent", `{"InferenceComponentName":"c","EndpointName":"e","Specification":{"ModelName":"cold","StartupParameters":{"ContainerStartupHealthCheckTimeoutInSeconds":90}}}`)
	p.now = p.now.Add(90*time.Second - time.Millisecond)
	p.advance()
	if got := p.describeComponent(t, "c")["InferenceComponentStatus"]; got != "Creating" {
		t.Fatalf("just before its time: %s, want Creating", got)
	}
	p.now = p.now.Add(time.Millisecond)
	p.advance()
	got := p.describeComponent(t, "c")
	want := "The container of inference component c did not pass the ping health check: no replica of the pool cold was ready within 90 seconds."
	if got["InferenceComponentStatus"] != "Failed" || got["FailureReason"] != want {
		t.Errorf("got %v, want Failed because %s", got, want)
	}
	if a := p.call(t, "UpdateInferenceComponentRuntimeConfig", `{"InferenceComponentName":"c","DesiredRuntimeConfig":{"CopyCount":1}}`); !strings.Contains(a.message(), "with status Failed") {
		t.Errorf("an update of a failed one: %v", a.body)
	}
	p.must(t, "DeleteInferenceComponent", `{"InferenceComponentName":"c"}`)
	p.advance()
	p.deploy(t, "c", "m", "")
	if got := p.describeComponent(t, "c"); got["InferenceComponentStatus"] != "InService" {
		t.Errorf("made again: %v, want InService", got)
	}
}

func TestComponentUpdates(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "c", "m", "")
	update := func(operation, members string) {
		t.Helper()
		p.must(t, operation, `{"InferenceComponentName":"c",`+members+`}`)
		p.advance()
	}
	served := func(what string, want config.InferenceComponent) {
		t.Helper()
		want.Name, want.Variant = "c", "v"
		same(t, what, []config.InferenceComponent{want}, p.hosted())
	}
	update("UpdateInferenceComponent", `"Specification":{"ModelName":"cold"},"RuntimeConfig":{"CopyCount":2}`)
	got := p.describeComponent(t, "c")
	if runtime := got["RuntimeConfig"].(map[string]any); got["InferenceComponentStatus"] != "Updating" || runtime["DesiredCopyCount"] != 2.0 || got["Specification"].(map[string]any)["ModelName"] != "m" {
		t.Errorf("got %v, want it to be updating to 2 copies, with the old pool in service", got)
	}
	served("while the new pool has nothing ready", config.InferenceComponent{Pool: "m"})
	p.now = p.now.Add(startupTimeout)
	p.advance()
	if reason, _ := p.describeComponent(t, "c")["FailureReason"].(string); !strings.HasSuffix(reason, "The update was given up; what was there before stays in service.") {
		t.Errorf("an update that is not ready in time: %q", reason)
	}
	served("after it was given up", config.InferenceComponent{Pool: "m"})

	update("UpdateInferenceComponent", `"Specification":{"ModelName":"n"}`)
	served("another pool", config.InferenceComponent{Pool: "n"})
	update("UpdateInferenceComponentRuntimeConfig", `"DesiredRuntimeConfig":{"CopyCount":0}`)
	served("no copies", config.InferenceComponent{Pool: "n", NoCopies: true})
	same(t, "no copies", map[string]any{"DesiredCopyCount": 0.0, "CurrentCopyCount": 0.0}, p.describeComponent(t, "c")["RuntimeConfig"].(map[string]any))
	update("UpdateInferenceComponent", `"RuntimeConfig":{"CopyCount":5}`)
	served("copies again", config.InferenceComponent{Pool: "n"})
	if got := p.describeComponent(t, "c"); got["InferenceComponentStatus"] != "InService" || got["FailureReason"] != nil {
		t.Errorf("got %v, want InService, and no word of earlier failures", got)
	}
}

func TestAComponentWithoutCopiesWaitsForNone(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "c", "cold", `,"RuntimeConfig":{"CopyCount":0}`)
	same(t, "components of the router", []config.InferenceComponent{{Name: "c", Pool: "cold", Variant: "v", NoCopies: true}}, p.hosted())
}

func TestComponentsAreDeletedBeforeTheirEndpoint(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "c", "m", "")
	const refusal = "Cannot delete endpoint with inference component associated. Please delete inference component and try it again."
	if a := p.call(t, "DeleteEndpoint", `{"EndpointName":"e"}`); a.message() != refusal {
		t.Errorf("got %v, want %s", a.body, refusal)
	}
	p.must(t, "DeleteInferenceComponent", `{"InferenceComponentName":"c"}`)
	if got := p.describeComponent(t, "c")["InferenceComponentStatus"]; got != "Deleting" || len(p.hosted()) != 1 {
		t.Errorf("got %v, served %v; want Deleting, and served for a moment", got, p.hosted())
	}
	p.advance()
	if a := p.call(t, "DescribeInferenceComponent", `{"InferenceComponentName":"c"}`); a.message() != `Could not find inference component "`+arnPrefix+`inference-component/c".` || len(p.hosted()) != 0 {
		t.Errorf("got %v, served %v; want neither", a.body, p.hosted())
	}
	p.must(t, "DeleteEndpoint", `{"EndpointName":"e"}`)
	p.advance()
	if a := p.call(t, "DescribeEndpoint", `{"EndpointName":"e"}`); a.body["__type"] != "ValidationException" {
		t.Errorf("got %v, want no endpoint", a.body)
	}
}

func TestAnUpdateKeepsTheVariantsOfComponents(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "c", "m", "")
	p.must(t, "CreateEndpointConfig", strings.Replace(strings.Replace(hosting, `"hosting"`, `"more"`, 1), "LEAST_OUTSTANDING_REQUESTS", "KV_AWARE", 1))
	p.must(t, "CreateEndpointConfig", strings.Replace(strings.Replace(hosting, `"hosting"`, `"other"`, 1), `"v"`, `"w"`, 1))
	p.config(t, "pooled", okVariant)
	for _, name := range []string{"other", "pooled"} {
		want := "Endpoint configuration " + name + " has no production variant v without ModelName, to which inference component c is deployed. Delete the inference component first."
		if a := p.call(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"`+name+`"}`); a.message() != want {
			t.Errorf("%s: got %q, want %q", name, a.message(), want)
		}
	}
	p.must(t, "UpdateEndpoint", `{"EndpointName":"e","EndpointConfigName":"more"}`)
	p.advance()
	if got := p.router.served("e")[0].Routing.Strategy; got != "KV_AWARE" || len(p.hosted()) != 1 {
		t.Errorf("got %s and %v, want the new strategy and the component", got, p.hosted())
	}
}

func TestListInferenceComponents(t *testing.T) {
	p := newHost(t)
	same(t, "none", map[string]any{"InferenceComponents": []any{}}, p.must(t, "ListInferenceComponents", "{}"))
	p.must(t, "CreateEndpoint", `{"EndpointName":"other","EndpointConfigName":"hosting"}`)
	p.advance()
	for _, name := range []string{"beta", "Alpha"} {
		p.deploy(t, name, "m", "")
		p.now = p.now.Add(time.Second)
	}
	p.must(t, "CreateInferenceComponent", `{"InferenceComponentName":"gamma","EndpointName":"other","Specification":{"ModelName":"cold"}}`)
	for filter, want := range map[string]string{
		``:                                    "gamma Alpha beta",
		`"MaxResults":1`:                      "gamma Alpha beta",
		`"SortBy":"Name"`:                     "gamma beta Alpha",
		`"SortBy":"Status"`:                   "beta Alpha gamma",
		`"StatusEquals":"InService"`:          "Alpha beta",
		`"NameContains":"ALP"`:                "Alpha",
		`"EndpointNameEquals":"Other"`:        "gamma",
		`"VariantNameEquals":"w"`:             "",
		`"CreationTimeAfter":1796004099`:      "gamma Alpha",
		`"LastModifiedTimeBefore":1796004099`: "beta",
	} {
		names, pages := p.listed(t, "ListInferenceComponents", "InferenceComponents", filter)
		if got := strings.Join(names, " "); got != want || strings.Contains(filter, "MaxResults") && pages != 3 {
			t.Errorf("%s: got %s in %d pages, want %s", filter, got, pages, want)
		}
	}
	first := p.must(t, "ListInferenceComponents", `{"NameContains":"beta"}`)["InferenceComponents"].([]any)[0]
	same(t, "summary", map[string]any{
		"InferenceComponentName": "beta", "InferenceComponentArn": arnPrefix + "inference-component/beta", "EndpointName": "e", "EndpointArn": arnPrefix + "endpoint/e",
		"VariantName": "v", "CreationTime": 1796004098.5, "LastModifiedTime": 1796004098.5, "InferenceComponentStatus": "InService",
	}, first.(map[string]any))
}

func TestComponentErrors(t *testing.T) {
	p := newHost(t)
	p.config(t, "pooled", okVariant)
	p.endpoint(t, "pooled", "pooled")
	two := strings.Replace(strings.Replace(hosting, `"hosting"`, `"two"`, 1), `[`, `[{"VariantName":"w"},`, 1)
	p.must(t, "CreateEndpointConfig", two)
	p.endpoint(t, "two", "two")
	p.deploy(t, "there", "m", "")
	p.must(t, "CreateInferenceComponent", `{"InferenceComponentName":"starting","EndpointName":"e","Specification":{"ModelName":"m"}}`)
	before := p.state.Load()
	specified := func(endpoint, specification string) string {
		return `{"InferenceComponentName":"c","EndpointName":"` + endpoint + `","Specification":` + specification + `}`
	}
	const ok, one, arn = `{"ModelName":"m"}`, "1 validation error detected: ", arnPrefix + "inference-component/"
	for name, c := range map[string]struct{ operation, body, want string }{
		"unknown":              {"DescribeInferenceComponent", `{"InferenceComponentName":"None"}`, `Could not find inference component "` + arn + `none".`},
		"unknown to update":    {"UpdateInferenceComponent", `{"InferenceComponentName":"none","Specification":` + ok + `}`, `Could not find inference component "` + arn + `none".`},
		"unknown to scale":     {"UpdateInferenceComponentRuntimeConfig", `{"InferenceComponentName":"none","DesiredRuntimeConfig":{"CopyCount":1}}`, `Could not find inference component "` + arn + `none".`},
		"unknown to delete":    {"DeleteInferenceComponent", `{"InferenceComponentName":"none"}`, `Could not find inference component "` + arn + `none".`},
		"there already":        {"CreateInferenceComponent", strings.Replace(specified("e", ok), `"c"`, `"There"`, 1), `Cannot create already existing inference component "` + arn + `there".`},
		"in progress":          {"DeleteInferenceComponent", `{"InferenceComponentName":"starting"}`, `Cannot update in-progress inference component "` + arn + `starting".`},
		"in progress, update":  {"UpdateInferenceComponent", `{"InferenceComponentName":"starting","Specification":` + ok + `}`, `Cannot update in-progress inference component "` + arn + `starting".`},
		"no endpoint":          {"CreateInferenceComponent", specified("none", ok), `Could not find endpoint "` + arnPrefix + `endpoint/none".`},
		"endpoint of the file": {"CreateInferenceComponent", specified("from-file", ok), `Could not find endpoint "` + arnPrefix + `endpoint/from-file". ...`},
		"endpoint with a pool": {"CreateInferenceComponent", specified("pooled", ok), `Could not find variant "v" without ModelName of endpoint "` + arnPrefix + `endpoint/pooled". ...`},
		"which variant":        {"CreateInferenceComponent", specified("two", ok), one + "Value null at 'variantName' failed to satisfy constraint: Member must not be null where the endpoint has several variants"},
		"unknown variant":      {"CreateInferenceComponent", strings.Replace(specified("two", ok), `{`, `{"VariantName":"x",`, 1), `Could not find variant "x" without ModelName of endpoint "` + arnPrefix + `endpoint/two". ...`},
		"nothing given":        {"CreateInferenceComponent", `{}`, "2 validation errors detected: Value null at 'inferenceComponentName' failed to satisfy constraint: Member must not be null; Value null at 'endpointName' failed to satisfy constraint: Member must not be null"},
		"no specification":     {"CreateInferenceComponent", `{"InferenceComponentName":"c","EndpointName":"e"}`, one + "Value null at 'specification' failed to satisfy constraint: Member must not be null"},
		"no pool":              {"CreateInferenceComponent", specified("e", `{"InstanceType":"ml.g5.xlarge"}`), "Specification has no ModelName; name a pool of Warmpath's configuration."},
		"no pool of that name": {"CreateInferenceComponent", specified("e", `{"ModelName":"M"}`), `Could not find model "` + arnPrefix + `model/m". ...`},
		"an adapter":           {"CreateInferenceComponent", specified("e", `{"BaseInferenceComponentName":"base"}`), `BaseInferenceComponentName is not supported by Warmpath: it loads no adapters. Let the engines of the pool of "base" serve the adapter, ...`},
		"a container":          {"CreateInferenceComponent", specified("e", `{"Container":{"Image":"i"}}`), "Container is not supported by Warmpath: ..."},
		"per instance type":    {"CreateInferenceComponent", `{"InferenceComponentName":"c","EndpointName":"e","Specifications":[` + ok + `]}`, "Specifications is not supported by Warmpath: ..."},
		"bad names and numbers": {"CreateInferenceComponent", `{"InferenceComponentName":"a_b","EndpointName":"e","Specification":{"ModelName":"m","StartupParameters":{"ContainerStartupHealthCheckTimeoutInSeconds":59}},"RuntimeConfig":{"CopyCount":-1}}`,
			`3 validation errors detected: Value 'a_b' at 'inferenceComponentName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?; Value '59' at 'specification.startupParameters.containerStartupHealthCheckTimeoutInSeconds' failed to satisfy constraint: Member must have value greater than or equal to 60; Value '-1' at 'runtimeConfig.copyCount' failed to satisfy constraint: Member must have value greater than or equal to 0`},
		"no count":            {"UpdateInferenceComponentRuntimeConfig", `{"InferenceComponentName":"there","DesiredRuntimeConfig":{}}`, one + "Value null at 'desiredRuntimeConfig.copyCount' failed to satisfy constraint: Member must not be null"},
		"nothing to scale":    {"UpdateInferenceComponentRuntimeConfig", `{"InferenceComponentName":"there"}`, one + "Value null at 'desiredRuntimeConfig' failed to satisfy constraint: Member must not be null"},
		"nothing to update":   {"UpdateInferenceComponent", `{"InferenceComponentName":"there"}`, "Specification or RuntimeConfig is needed: there is nothing to update."},
		"update to a adapter": {"UpdateInferenceComponent", `{"InferenceComponentName":"there","Specification":{"BaseInferenceComponentName":"b"}}`, "BaseInferenceComponentName is not supported by Warmpath: ..."},
		"a rolling update":    {"UpdateInferenceComponent", `{"InferenceComponentName":"there","RuntimeConfig":{"CopyCount":2},"DeploymentConfig":{"RollingUpdatePolicy":{}}}`, "DeploymentConfig is not supported by Warmpath: ..."},
		"no role":             {"CreateEndpointConfig", withVariants(`{"VariantName":"v"}`, ""), `Production variant "v" has no ModelName. Name a pool of Warmpath's configuration, or set ExecutionRoleArn and deploy inference components to it.`},
		"unlike variants":     {"CreateEndpointConfig", withVariants(`{`+okVariant+`},{"VariantName":"w"}`, `,"ExecutionRoleArn":"arn:aws:iam::123456789012:role/r"`), `Production variants "v" and "w" are unlike: ...`},
		"unknown status":      {"ListInferenceComponents", `{"StatusEquals":"OutOfService"}`, one + "Value 'OutOfService' at 'statusEquals' failed to satisfy constraint: Member must satisfy enum value set: [InService, Creating, Updating, Failed, Deleting]"},
	} {
		a := p.call(t, c.operation, c.body)
		want, open := strings.CutSuffix(c.want, "...")
		if a.code != 400 || a.body["__type"] != "ValidationException" || !(a.message() == want || open && strings.HasPrefix(a.message(), want)) {
			t.Errorf("%s: got %d %v\n%s\nwant %s", name, a.code, a.body["__type"], a.message(), c.want)
		}
	}
	if p.state.Load() != before {
		t.Error("the state has changed")
	}
}

func TestTagsOfComponents(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "C", "m", `,"Tags":[{"Key":"team","Value":"a"}]`)
	p.must(t, "AddTags", `{"ResourceArn":"`+arnPrefix+`inference-component/c","Tags":[{"Key":"more","Value":"b"}]}`)
	p.must(t, "DeleteTags", `{"ResourceArn":"`+arnPrefix+`inference-component/c","TagKeys":["team"]}`)
	same(t, "tags", []any{map[string]any{"Key": "more", "Value": "b"}}, p.must(t, "ListTags", `{"ResourceArn":"`+arnPrefix+`inference-component/c"}`)["Tags"])
}

func TestComponentLimit(t *testing.T) {
	p := newHost(t)
	full := p.state.Load().clone()
	for i := range maxComponents {
		full.Components[strings.Repeat("x", i+1)] = component{}
	}
	p.Server.state.Store(full)
	if a := p.call(t, "CreateInferenceComponent", `{"InferenceComponentName":"c","EndpointName":"e","Specification":{"ModelName":"m"}}`); a.body["__type"] != "ResourceLimitExceeded" {
		t.Errorf("got %v, want ResourceLimitExceeded", a.body)
	}
}

// A state without components reads as it did before there were any, by older versions and by this one.
func TestStatesWithoutComponents(t *testing.T) {
	p := newHost(t)
	text, err := os.ReadFile(p.path)
	if err != nil || strings.Contains(string(text), "inference_components") {
		t.Errorf("%v, the state file speaks of components:\n%s", err, text)
	}
	p.open(t)
	p.deploy(t, "c", "m", "")
	if len(p.hosted()) != 1 {
		t.Error("a component that was made after a state without any was read is not served")
	}
}

func TestComponentsInUnusableStateFiles(t *testing.T) {
	p := newHost(t)
	p.deploy(t, "c", "m", "")
	whole, err := os.ReadFile(p.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, text, want string }{
		{`"name": "c"`, `"name": "d"`, `inference component "d" stands under "c"`},
		{`"endpoint": "e"`, `"endpoint": "f"`, `inference component "c": there is no endpoint "f"`},
		{`"variant": "v"`, `"variant": "w"`, `inference component "c": endpoint "e" has no variant "w" for it`},
		{`"desired_copy_count": 1`, `"desired_copy_count": -1`, `inference component "c": it has no pool, or less than 0 copies`},
		{`"ModelName": "m"`, `"ModelName": "m/n"`, `inference component "c": ValidationException: 1 validation error detected`},
	} {
		text := strings.Replace(string(whole), c.old, c.text, 1)
		if err := os.WriteFile(p.path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := (&store{path: p.path}).load(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.text, err, c.want)
		}
	}
}
