package controlplane

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const (
	arnPrefix = "arn:aws:sagemaker:eu-central-1:123456789012:"
	okVariant = `"VariantName":"v","ModelName":"m"`
)

// withVariants is the input of CreateEndpointConfig for these variants, and more members.
func withVariants(variants, more string) string {
	return `{"EndpointConfigName":"new","ProductionVariants":[` + variants + `]` + more + `}`
}

func shadowed(variants, shadows string) string {
	return withVariants(variants, `,"ShadowProductionVariants":[`+shadows+`]`)
}

func routed(routing string) string {
	return withVariants(`{`+okVariant+`,"RoutingConfig":`+routing+`}`, "")
}

// prepared is a plane with a configuration "c" and endpoints in every status.
func prepared(t testing.TB) *plane {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	p.config(t, "cold", `"VariantName":"v","ModelName":"cold"`)
	p.config(t, "zero", `"VariantName":"v","ModelName":"m","InitialVariantWeight":0`, `"VariantName":"w","ModelName":"m"`)
	p.config(t, "gone", `"VariantName":"v","ModelName":"n"`)
	p.endpoint(t, "Serving", "c")
	p.endpoint(t, "broken", "cold")
	p.now = p.now.Add(startupTimeout)
	p.advance()
	p.must(t, "CreateEndpoint", `{"EndpointName":"starting","EndpointConfigName":"c"}`)
	delete(p.router.pools, "n")
	return p
}

func TestErrors(t *testing.T) {
	p := prepared(t)
	before := p.state.Load()
	const one = "1 validation error detected: "
	at := func(member string) string {
		return "'productionVariants.1.member." + member + "' failed to satisfy constraint: Member must "
	}
	tests := []struct {
		name, operation, body string
		code                  string // ValidationException unless given
		want                  string // the message; ... for what may follow
	}{
		{name: "unknown endpoint", operation: "DescribeEndpoint", body: `{"EndpointName":"None"}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/none".`},
		{name: "unknown endpoint to update", operation: "UpdateEndpoint", body: `{"EndpointName":"none","EndpointConfigName":"c"}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/none".`},
		{name: "unknown endpoint to delete", operation: "DeleteEndpoint", body: `{"EndpointName":"none"}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/none".`},
		{name: "unknown endpoint to weigh", operation: "UpdateEndpointWeightsAndCapacities", body: `{"EndpointName":"none","DesiredWeightsAndCapacities":[{"VariantName":"v"}]}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/none".`},
		{name: "endpoint of the file", operation: "DescribeEndpoint", body: `{"EndpointName":"from-file"}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/from-file". It stands in Warmpath's configuration file, which this API does not change.`},
		{name: "unknown config", operation: "DescribeEndpointConfig", body: `{"EndpointConfigName":"None"}`, want: `Could not find endpoint configuration "` + arnPrefix + `endpoint-config/none".`},
		{name: "unknown config to delete", operation: "DeleteEndpointConfig", body: `{"EndpointConfigName":"none"}`, want: `Could not find endpoint configuration "` + arnPrefix + `endpoint-config/none".`},
		{name: "endpoint of an unknown config", operation: "CreateEndpoint", body: `{"EndpointName":"e","EndpointConfigName":"none"}`, want: `Could not find endpoint configuration "` + arnPrefix + `endpoint-config/none".`},
		{name: "endpoint that is there", operation: "CreateEndpoint", body: `{"EndpointName":"serving","EndpointConfigName":"c"}`, want: `Cannot create already existing endpoint "` + arnPrefix + `endpoint/serving".`},
		{name: "endpoint that is in the file", operation: "CreateEndpoint", body: `{"EndpointName":"From-File","EndpointConfigName":"c"}`, want: `Cannot create already existing endpoint "` + arnPrefix + `endpoint/from-file". It stands in Warmpath's configuration file, which this API does not change.`},
		{name: "config that is there", operation: "CreateEndpointConfig", body: `{"EndpointConfigName":"C","ProductionVariants":[{` + okVariant + `}]}`, want: `Cannot create already existing endpoint configuration "` + arnPrefix + `endpoint-config/c".`},
		{name: "update of one that is being created", operation: "UpdateEndpoint", body: `{"EndpointName":"starting","EndpointConfigName":"c"}`, want: `Cannot update in-progress endpoint "` + arnPrefix + `endpoint/starting".`},
		{name: "delete of one that is being created", operation: "DeleteEndpoint", body: `{"EndpointName":"starting"}`, want: `Cannot update in-progress endpoint "` + arnPrefix + `endpoint/starting".`},
		{name: "weights of one that is being created", operation: "UpdateEndpointWeightsAndCapacities", body: `{"EndpointName":"starting","DesiredWeightsAndCapacities":[{"VariantName":"v","DesiredWeight":2}]}`, want: `Cannot update in-progress endpoint "` + arnPrefix + `endpoint/starting".`},
		{name: "update of a failed one", operation: "UpdateEndpoint", body: `{"EndpointName":"broken","EndpointConfigName":"c"}`, want: `Cannot update endpoint "` + arnPrefix + `endpoint/broken" with status Failed. Delete it and create it again.`},
		{name: "weights of an unknown variant", operation: "UpdateEndpointWeightsAndCapacities", body: `{"EndpointName":"serving","DesiredWeightsAndCapacities":[{"VariantName":"w","DesiredWeight":2}]}`, want: `Could not find variant "w" of endpoint "` + arnPrefix + `endpoint/serving".`},
		{name: "weights that leave nothing", operation: "UpdateEndpointWeightsAndCapacities", body: `{"EndpointName":"serving","DesiredWeightsAndCapacities":[{"VariantName":"v","DesiredWeight":0}]}`, want: `The weight of every production variant would be 0; ...`},
		{name: "a pool that went since", operation: "CreateEndpoint", body: `{"EndpointName":"e","EndpointConfigName":"gone"}`, want: `Could not find model "` + arnPrefix + `model/n". ...`},

		{name: "nothing given", operation: "CreateEndpointConfig", body: ``, want: "2 validation errors detected: Value null at 'endpointConfigName' failed to satisfy constraint: Member must not be null; Value null at 'productionVariants' failed to satisfy constraint: Member must not be null"},
		{name: "bad names", operation: "CreateEndpoint", body: `{"EndpointName":"-e","EndpointConfigName":"` + strings.Repeat("c", 64) + `"}`, want: "3 validation errors detected: Value '-e' at 'endpointName' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9](-*[a-zA-Z0-9]){0,62}; Value '" + strings.Repeat("c", 64) + "' at 'endpointConfigName' failed to satisfy constraint: Member must have length less than or equal to 63; ..."},
		{name: "no variants", operation: "CreateEndpointConfig", body: withVariants("", ""), want: one + "Value '[0 members]' at 'productionVariants' failed to satisfy constraint: Member must have length greater than or equal to 1"},
		{name: "eleven variants", operation: "CreateEndpointConfig", body: withVariants(strings.Repeat(`{`+okVariant+`},`, 10)+`{`+okVariant+`}`, ""), want: one + "Value '[11 members]' at 'productionVariants' failed to satisfy constraint: Member must have length less than or equal to 10"},
		{name: "unknown strategy", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"NOPE"}`), want: one + "Value 'NOPE' at " + at("routingConfig.routingStrategy") + "satisfy enum value set: [LEAST_OUTSTANDING_REQUESTS, RANDOM, PREFIX_AWARE, KV_AWARE]"},
		{name: "no strategy", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":null,"X":1}`), want: one + "Value null at " + at("routingConfig.routingStrategy") + "not be null"},
		{name: "values too small", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"PREFIX_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":1023,"ConcurrencyThreshold":0}}`),
			want: "2 validation errors detected: Value '1023' at " + at("routingConfig.prefixAwareRoutingConfig.prefixLength") + "have value greater than or equal to 1024; Value '0' at " + at("routingConfig.prefixAwareRoutingConfig.concurrencyThreshold") + "have value greater than or equal to 1"},
		{name: "values too large", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"PREFIX_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":65537,"ConcurrencyThreshold":1025}}`),
			want: "2 validation errors detected: Value '65537' at " + at("routingConfig.prefixAwareRoutingConfig.prefixLength") + "have value less than or equal to 65536; Value '1025' at " + at("routingConfig.prefixAwareRoutingConfig.concurrencyThreshold") + "have value less than or equal to 1024"},
		{name: "PREFIX_AWARE without settings", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"PREFIX_AWARE"}`), want: one + "Value null at " + at("routingConfig.prefixAwareRoutingConfig") + "not be null when routingStrategy is PREFIX_AWARE"},
		{name: "PREFIX_AWARE with one setting", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"PREFIX_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":1024}}`), want: one + "Value null at " + at("routingConfig.prefixAwareRoutingConfig.concurrencyThreshold") + "not be null"},
		{name: "settings of another strategy", operation: "CreateEndpointConfig", body: routed(`{"RoutingStrategy":"KV_AWARE","PrefixAwareRoutingConfig":{"PrefixLength":1024,"ConcurrencyThreshold":1}}`), want: one + "Value 'PrefixAwareRoutingConfig' at " + at("routingConfig.prefixAwareRoutingConfig") + "be null unless routingStrategy is PREFIX_AWARE"},
		{name: "counts and weights", operation: "CreateEndpointConfig", body: withVariants(`{"VariantName":"v","ModelName":"m.x","InitialInstanceCount":0,"InitialVariantWeight":-0.5}`, ""),
			want: "3 validation errors detected: Value 'm.x' at " + at("modelName") + `satisfy regular expression pattern: [a-zA-Z0-9]([\-a-zA-Z0-9]*[a-zA-Z0-9])?; Value '0' at ` + at("initialInstanceCount") + "have value greater than or equal to 1; Value '-0.5' at " + at("initialVariantWeight") + "have value greater than or equal to 0"},
		{name: "no pool of that name", operation: "CreateEndpointConfig", body: withVariants(`{"VariantName":"v","ModelName":"M"}`, ""), want: `Could not find model "` + arnPrefix + `model/m". ModelName names a pool of Warmpath's configuration, and it has no pool M.`},
		{name: "twins", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`},{`+okVariant+`}`, ""), want: `Production variant names must be unique: "v" is there twice.`},
		{name: "no weight", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`,"InitialVariantWeight":0}`, ""), want: "InitialVariantWeight is 0 in every production variant; ..."},
		{name: "a shadow of the same name", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"V","ModelName":"cold"}`), want: `Production variant names must be unique: "V" is there twice.`},
		{name: "two shadows", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"s","ModelName":"cold"},{"VariantName":"t","ModelName":"cold"}`), want: "With ShadowProductionVariants there must be 1 production variant and 1 shadow variant; there are 1 and 2."},
		{name: "a shadow of two", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`},{"VariantName":"w","ModelName":"m"}`, `{"VariantName":"s","ModelName":"cold"}`), want: "With ShadowProductionVariants there must be 1 production variant and 1 shadow variant; there are 2 and 1."},
		{name: "a shadow on the same pool", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"s","ModelName":"m"}`), want: `Shadow variant "s" has the ModelName of the production variant. ...`},
		{name: "a shadow without a pool", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"s","ModelName":"none"}`), want: `Could not find model "` + arnPrefix + `model/none". ...`},
		{name: "a shadow that names no pool", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"s"}`), want: `Shadow variant "s" has no ModelName; name a pool of Warmpath's configuration.`},
		{name: "a shadow out of range", operation: "CreateEndpointConfig", body: shadowed(`{`+okVariant+`}`, `{"VariantName":"s","ModelName":"cold","InitialVariantWeight":-1}`), want: one + "Value '-1' at 'shadowProductionVariants.1.member.initialVariantWeight' failed to satisfy constraint: Member must have value greater than or equal to 0"},
		{name: "a shadow of components", operation: "CreateEndpointConfig", body: `{"EndpointConfigName":"x","ExecutionRoleArn":"arn:aws:iam::123456789012:role/r","ProductionVariants":[{"VariantName":"v"}],"ShadowProductionVariants":[{"VariantName":"s","ModelName":"m"}]}`, want: "ShadowProductionVariants is not supported by Warmpath beside inference components; ..."},
		{name: "serverless", operation: "CreateEndpointConfig", body: withVariants(`{"VariantName":"v","ModelName":"m","ServerlessConfig":{"MaxConcurrency":1}}`, ""), want: "ServerlessConfig is not supported by Warmpath: ..."},
		{name: "managed scaling", operation: "CreateEndpointConfig", body: withVariants(`{"VariantName":"v","ModelName":"m","ManagedInstanceScaling":{"Status":"ENABLED"}}`, ""), want: "ManagedInstanceScaling is not supported by Warmpath: ..."},
		{name: "async", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`}`, `,"AsyncInferenceConfig":{"OutputConfig":{}}`), want: "AsyncInferenceConfig is not supported by Warmpath: ..."},
		{name: "explainer", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`}`, `,"ExplainerConfig":{}`), want: "ExplainerConfig is not supported by Warmpath: ..."},
		{name: "capture", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`}`, `,"DataCaptureConfig":{"EnableCapture":true}`), want: "DataCaptureConfig with EnableCapture is not supported by Warmpath: prompts and answers are never stored."},
		{name: "canary", operation: "CreateEndpoint", body: `{"EndpointName":"e","EndpointConfigName":"c","DeploymentConfig":{"BlueGreenUpdatePolicy":{"TrafficRoutingConfiguration":{"Type":"CANARY","WaitIntervalInSeconds":0}}}}`, want: "TrafficRoutingConfiguration CANARY is not supported by Warmpath: ..."},
		{name: "rolling", operation: "UpdateEndpoint", body: `{"EndpointName":"serving","EndpointConfigName":"c","DeploymentConfig":{"RollingUpdatePolicy":{"WaitIntervalInSeconds":0}}}`, want: "RollingUpdatePolicy is not supported by Warmpath: ..."},
		{name: "alarms", operation: "UpdateEndpoint", body: `{"EndpointName":"serving","EndpointConfigName":"c","DeploymentConfig":{"AutoRollbackConfiguration":{"Alarms":[{"AlarmName":"a"}]}}}`, want: "AutoRollbackConfiguration with Alarms is not supported by Warmpath: ..."},
		{name: "a policy without type", operation: "CreateEndpoint", body: `{"EndpointName":"e","EndpointConfigName":"c","DeploymentConfig":{"BlueGreenUpdatePolicy":{}}}`, want: one + "Value null at 'deploymentConfig.blueGreenUpdatePolicy.trafficRoutingConfiguration' failed to satisfy constraint: Member must not be null"},

		{name: "page of 101", operation: "ListEndpoints", body: `{"MaxResults":101}`, want: one + "Value '101' at 'maxResults' failed to satisfy constraint: Member must have value less than or equal to 100"},
		{name: "unknown order", operation: "ListEndpointConfigs", body: `{"SortOrder":"Up"}`, want: one + "Value 'Up' at 'sortOrder' failed to satisfy constraint: Member must satisfy enum value set: [Ascending, Descending]"},
		{name: "unknown sort key", operation: "ListEndpointConfigs", body: `{"SortBy":"Status"}`, want: one + "Value 'Status' at 'sortBy' failed to satisfy constraint: Member must satisfy enum value set: [Name, CreationTime]"},
		{name: "unknown status", operation: "ListEndpoints", body: `{"StatusEquals":"Fine"}`, want: one + "Value 'Fine' at 'statusEquals' failed to satisfy constraint: Member must satisfy enum value set: [OutOfService, ..."},
		{name: "odd token", operation: "ListEndpoints", body: `{"NextToken":"x"}`, want: "Invalid NextToken: ..."},
		{name: "odd filter", operation: "ListEndpoints", body: `{"NameContains":"a b"}`, want: one + `Value 'a b' at 'nameContains' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9\-]+`},
		{name: "tags of nothing", operation: "ListTags", body: `{"ResourceArn":"` + arnPrefix + `endpoint/none"}`, want: `Could not find endpoint "` + arnPrefix + `endpoint/none".`},

		{name: "not JSON", operation: "DescribeEndpoint", body: `{"EndpointName":`, code: "SerializationException", want: "The request is not a JSON object."},
		{name: "not an object", operation: "DescribeEndpoint", body: `[]`, code: "SerializationException", want: "The request is not a JSON object."},
		{name: "a text for a number", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`,"InitialInstanceCount":"4"}`, ""), code: "SerializationException", want: "/ProductionVariants/0/InitialInstanceCount holds a value of the wrong type: a string."},
		{name: "a fraction for a count", operation: "CreateEndpointConfig", body: withVariants(`{`+okVariant+`,"InitialInstanceCount":1.5}`, ""), code: "SerializationException", want: "/ProductionVariants/0/InitialInstanceCount holds a value of the wrong type: a number, of this size or at all."},
		{name: "a date for a number of seconds", operation: "ListEndpoints", body: `{"CreationTimeAfter":"2026-11-30"}`, code: "SerializationException", want: "/CreationTimeAfter holds a value of the wrong type: a string."},
		{name: "unknown operation", operation: "CreateModel", body: `{}`, code: "UnknownOperationException", want: "The control plane does not know the operation 'SageMaker.CreateModel'. Models are pools of replicas, which stand in Warmpath's configuration file."},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a := p.call(t, test.operation, test.body)
			want, open := strings.CutSuffix(test.want, "...")
			code := test.code
			if code == "" {
				code = "ValidationException"
			}
			if a.code != http.StatusBadRequest || a.body["__type"] != code || !(a.message() == want || open && strings.HasPrefix(a.message(), want)) {
				t.Errorf("got %d %v\n%s\nwant %s\n%s", a.code, a.body["__type"], a.message(), code, test.want)
			}
			if p.state.Load() != before {
				t.Error("the state has changed")
			}
		})
	}
}

func TestRequestsThatAreNoCalls(t *testing.T) {
	p := newPlane(t)
	request := func(method, body string, header ...string) *http.Request {
		r := httptest.NewRequest(method, "/", strings.NewReader(body))
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r
	}
	const target = "X-Amz-Target"
	tests := []struct {
		name string
		r    *http.Request
		code int
		want string
	}{
		{"no target", request("POST", "{}"), 400, "UnknownOperationException"},
		{"of another service", request("POST", "{}", target, "DynamoDB_20120810.ListTables"), 400, "UnknownOperationException"},
		{"GET", request("GET", "", target, "SageMaker.ListEndpoints"), 400, "UnknownOperationException"},
		{"too long", request("POST", strings.Repeat(" ", maxBody+1), target, "SageMaker.ListEndpoints"), 413, "RequestEntityTooLargeException"},
		{"from a page", request("POST", "{}", target, "SageMaker.ListEndpoints", "Origin", "http://rebound.example"), 400, "AccessDeniedException"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if a := p.send(t, test.r); a.code != test.code || a.body["__type"] != test.want {
				t.Errorf("got %d %v, want %d %s", a.code, a.body, test.code, test.want)
			}
		})
	}
}

func TestLimits(t *testing.T) {
	p := prepared(t)
	full := p.state.Load().clone()
	for i := range maxConfigs {
		full.Configs[strings.Repeat("x", i+1)] = endpointConfig{}
	}
	for i := range maxEndpoints {
		full.Endpoints[strings.Repeat("x", i+1)] = endpoint{}
	}
	p.Server.state.Store(full)
	for operation, body := range map[string]string{
		"CreateEndpointConfig": withVariants(`{`+okVariant+`}`, ""),
		"CreateEndpoint":       `{"EndpointName":"e","EndpointConfigName":"c"}`,
	} {
		if a := p.call(t, operation, body); a.body["__type"] != "ResourceLimitExceeded" || !strings.HasPrefix(a.message(), "The account-level service limit 'Number of endpoint") {
			t.Errorf("%s: got %v, want ResourceLimitExceeded", operation, a.body)
		}
	}
}
