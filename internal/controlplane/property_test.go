package controlplane

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestCapturedRequests sends what boto3 and the AWS SDK for Go have sent to SageMaker's API, byte for byte.
func TestCapturedRequests(t *testing.T) {
	variant := func(routing map[string]any) []any {
		return []any{map[string]any{"VariantName": "v1", "ModelName": "m", "InstanceType": "ml.g5.xlarge", "InitialInstanceCount": 4.0, "RoutingConfig": routing}}
	}
	prefixAware := variant(map[string]any{"RoutingStrategy": "PREFIX_AWARE", "PrefixAwareRoutingConfig": map[string]any{"PrefixLength": 4096.0, "ConcurrencyThreshold": 8.0}})
	want := map[string][]any{ // the variants that are then described, or none for an error
		"boto3-04": prefixAware, "go-03": prefixAware,
		"boto3-05": variant(map[string]any{"RoutingStrategy": "KV_AWARE"}),
		"boto3-06": variant(map[string]any{"RoutingStrategy": "LEAST_OUTSTANDING_REQUESTS"}),
		"boto3-07": nil, "go-04": nil, "boto3-08": nil, "boto3-09": nil, // of what is not there, and an unknown strategy
	}
	files, err := filepath.Glob("testdata/requests/*.http")
	if err != nil || len(files) != len(want) {
		t.Fatalf("got %d files, %v, want %d", len(files), err, len(want))
	}
	for _, file := range files {
		name := strings.Join(strings.SplitN(filepath.Base(file), "-", 3)[:2], "-")
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(data)))
			if err != nil {
				t.Fatal(err)
			}
			a := p.send(t, r)
			if want[name] == nil {
				if a.code != http.StatusBadRequest || a.body["__type"] != "ValidationException" {
					t.Errorf("got %d %v, want a ValidationException", a.code, a.body)
				}
				return
			}
			same(t, "answer", map[string]any{"EndpointConfigArn": arnPrefix + "endpoint-config/c"}, a.body)
			same(t, "description", map[string]any{
				"EndpointConfigName": "c", "EndpointConfigArn": arnPrefix + "endpoint-config/c", "CreationTime": 1796004098.5,
				"ProductionVariants": want[name],
			}, p.must(t, "DescribeEndpointConfig", `{"EndpointConfigName":"c"}`))
		})
	}
}

// What says nothing to a router is given back as it came.
func TestEverythingGivenIsDescribed(t *testing.T) {
	p := newPlane(t)
	const settings = `{"EndpointConfigName":"c","KmsKeyId":"k","EnableNetworkIsolation":false,"MetricsConfig":{"EnableEnhancedMetrics":true},
		"VpcConfig":{"Subnets":["s"],"SecurityGroupIds":[]},"DataCaptureConfig":{"EnableCapture":false,"InitialSamplingPercentage":0},"ExecutionRoleArn":"arn:aws:iam::123456789012:role/r",
		"ProductionVariants":[{"VariantName":"v","ModelName":"m","InitialInstanceCount":1,"InstanceType":"ml.p5.48xlarge","InitialVariantWeight":0.1,
		"ContainerStartupHealthCheckTimeoutInSeconds":600,"ModelDataDownloadTimeoutInSeconds":60,"VariantInstanceProvisionTimeoutInSeconds":300,"VolumeSizeInGB":512,
		"AcceleratorType":"ml.eia1.medium","InferenceAmiVersion":"al2-ami","EnableSSMAccess":true,"CoreDumpConfig":{"DestinationS3Uri":"s3://b"},
		"CapacityReservationConfig":{},"InstancePools":[{"InstanceType":"x","Priority":1}],"AcceleratorPartitionLayouts":[{}]}]}`
	const host = `{"EndpointConfigName":"host","ExecutionRoleArn":"arn:aws:iam::123456789012:role/r",
		"ProductionVariants":[{"VariantName":"v","ManagedInstanceScaling":{"Status":"ENABLED","MinInstanceCount":1}}]}`
	for name, settings := range map[string]string{"c": settings, "host": host} {
		p.must(t, "CreateEndpointConfig", strings.TrimSuffix(settings, "}")+`,"Tags":[],"SomethingNewer":{"A":1}}`)
		p.open(t)
		var want map[string]any
		if err := json.Unmarshal([]byte(settings), &want); err != nil {
			t.Fatal(err)
		}
		want["EndpointConfigArn"], want["CreationTime"] = arnPrefix+"endpoint-config/"+name, 1796004098.5
		same(t, "description", want, p.must(t, "DescribeEndpointConfig", `{"EndpointConfigName":"`+name+`"}`))
	}
}

// everything is all that clients can see.
func (p *plane) everything(t testing.TB) (all []map[string]any) {
	t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, p.call(t, "DescribeEndpoint", `{"EndpointName":"`+name+`"}`).body, p.call(t, "DescribeEndpointConfig", `{"EndpointConfigName":"`+name+`"}`).body,
			p.call(t, "ListTags", `{"ResourceArn":"`+arnPrefix+"endpoint/"+name+`"}`).body, p.call(t, "DescribeInferenceComponent", `{"InferenceComponentName":"`+name+`"}`).body)
	}
	return append(all, p.must(t, "ListEndpoints", "{}"), p.must(t, "ListEndpointConfigs", "{}"), p.must(t, "ListInferenceComponents", "{}"))
}

// drawCall makes up a call, most of them possible.
func drawCall(t *rapid.T) (operation, body string) {
	name := func() string { return rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name") }
	variants := rapid.SampledFrom([]string{`{"VariantName":"v","ModelName":"m"}`, `{"VariantName":"v","ModelName":"cold","InitialVariantWeight":2}`,
		`{"VariantName":"v","ModelName":"m"},{"VariantName":"w","ModelName":"n","InitialVariantWeight":0,"RoutingConfig":{"RoutingStrategy":"KV_AWARE"}}`, `{"VariantName":"v"}`, `{"VariantName":"v"},{"VariantName":"w"}`, ``})
	weight := rapid.SampledFrom([]string{"0", "1", "2.5", "-1"})
	switch operation = rapid.SampledFrom([]string{"CreateEndpointConfig", "CreateEndpoint", "UpdateEndpoint", "UpdateEndpointWeightsAndCapacities", "DeleteEndpoint", "DeleteEndpointConfig", "AddTags", "DeleteTags",
		"CreateInferenceComponent", "UpdateInferenceComponent", "DeleteInferenceComponent"}).Draw(t, "operation"); operation {
	case "CreateEndpointConfig":
		shadows := rapid.SampledFrom([]string{"", `,"ShadowProductionVariants":[{"VariantName":"s","ModelName":"n","InitialVariantWeight":0.5}]`}).Draw(t, "shadows")
		body = fmt.Sprintf(`{"EndpointConfigName":%q,"ProductionVariants":[%s],"ExecutionRoleArn":"arn:aws:iam::123456789012:role/r"%s}`, name(), variants.Draw(t, "variants"), shadows)
	case "CreateInferenceComponent", "UpdateInferenceComponent":
		body = fmt.Sprintf(`{"InferenceComponentName":%q,"EndpointName":%q,"VariantName":"v","Specification":{"ModelName":%q},"RuntimeConfig":{"CopyCount":%d}}`,
			name(), name(), rapid.SampledFrom([]string{"m", "cold", "none"}).Draw(t, "pool"), rapid.IntRange(0, 2).Draw(t, "copies"))
	case "DeleteInferenceComponent":
		body = fmt.Sprintf(`{"InferenceComponentName":%q}`, name())
	case "CreateEndpoint":
		body = fmt.Sprintf(`{"EndpointName":%q,"EndpointConfigName":%q,"Tags":[{"Key":"k","Value":"v"}]}`, name(), name())
	case "UpdateEndpoint":
		body = fmt.Sprintf(`{"EndpointName":%q,"EndpointConfigName":%q,"RetainAllVariantProperties":%v}`, name(), name(), rapid.Bool().Draw(t, "retain"))
	case "UpdateEndpointWeightsAndCapacities":
		body = fmt.Sprintf(`{"EndpointName":%q,"DesiredWeightsAndCapacities":[{"VariantName":%q,"DesiredWeight":%s}]}`, name(), rapid.SampledFrom([]string{"v", "s"}).Draw(t, "variant"), weight.Draw(t, "weight"))
	case "DeleteEndpoint":
		body = fmt.Sprintf(`{"EndpointName":%q}`, name())
	case "DeleteEndpointConfig":
		body = fmt.Sprintf(`{"EndpointConfigName":%q}`, name())
	case "AddTags":
		body = fmt.Sprintf(`{"ResourceArn":%q,"Tags":[{"Key":"more","Value":"x"}]}`, arnPrefix+"endpoint/"+name())
	case "DeleteTags":
		body = fmt.Sprintf(`{"ResourceArn":%q,"TagKeys":["k"]}`, arnPrefix+"endpoint-config/"+name())
	}
	return operation, body
}

func TestAnySequenceLeavesAValidStateThatARestartKeeps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		p := newPlane(t)
		for range rapid.IntRange(1, 12).Draw(r, "calls") {
			operation, body := drawCall(r)
			if a := p.call(t, operation, body); a.code >= 500 {
				r.Fatalf("%d %v", a.code, a.body)
			}
			switch rapid.IntRange(0, 4).Draw(r, "then") {
			case 0, 1:
				p.advance()
			case 2:
				p.now = p.now.Add(rapid.SampledFrom([]time.Duration{time.Second, startupTimeout}).Draw(r, "time"))
			case 3:
				p.router.set("cold", rapid.IntRange(0, 1).Draw(r, "ready"))
			case 4:
				p.open(t)
			}
		}
		if err := p.Server.state.Load().validate(); err != nil {
			r.Fatal(err)
		}
		applied := p.Endpoints()
		before := p.everything(t)
		p.open(t)
		if diff := cmp.Diff(before, p.everything(t)); diff != "" {
			r.Fatalf("a restart changes what is described (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(applied, p.Endpoints()); diff != "" {
			r.Fatalf("a restart changes what is served (-before +after):\n%s", diff)
		}
		for name, e := range p.router.applied {
			if diff := cmp.Diff(p.Endpoints()[name], e); diff != "" {
				r.Fatalf("the router has another %s (-want +got):\n%s", name, diff)
			}
		}
	})
}

// FuzzCall holds every operation to an answer in AWS's form, whatever the body.
func FuzzCall(f *testing.F) {
	p := prepared(f)
	for operation := range operations {
		f.Add(operation, `{"EndpointName":"e","EndpointConfigName":"c","InferenceComponentName":"i","Specification":{"ModelName":"m"},"ResourceArn":"arn:aws:sagemaker:eu-central-1:123456789012:endpoint/e"}`)
	}
	f.Add("CreateEndpointConfig", routed(`{"RoutingStrategy":"PREFIX_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":1024,"ConcurrencyThreshold":1}}`))
	f.Add("UpdateEndpointWeightsAndCapacities", `{"EndpointName":"serving","DesiredWeightsAndCapacities":[{"VariantName":"v","DesiredWeight":1e38}]}`)
	f.Add("ListEndpoints", `{"CreationTimeAfter":1e9,"NextToken":"Cg"}`)
	f.Add("\xff", "{}") // headers need not be text
	f.Fuzz(func(t *testing.T, operation, body string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("X-Amz-Target", "SageMaker."+operation)
		if a := p.send(t, r); a.code >= 500 {
			t.Errorf("got %d %v", a.code, a.body)
		}
		p.advance()
		if err := p.Server.state.Load().validate(); err != nil {
			t.Error(err)
		}
	})
}
