package controlplane

// operations are the calls that the control plane answers, by name.
var operations = map[string]operation{
	"CreateEndpointConfig":               typed((*Server).createEndpointConfig),
	"DescribeEndpointConfig":             typed((*Server).describeEndpointConfig),
	"ListEndpointConfigs":                typed((*Server).listEndpointConfigs),
	"DeleteEndpointConfig":               typed((*Server).deleteEndpointConfig),
	"CreateEndpoint":                     typed((*Server).createEndpoint),
	"UpdateEndpoint":                     typed((*Server).updateEndpoint),
	"UpdateEndpointWeightsAndCapacities": typed((*Server).updateEndpointWeightsAndCapacities),
	"DescribeEndpoint":                   typed((*Server).describeEndpoint),
	"ListEndpoints":                      typed((*Server).listEndpoints),
	"DeleteEndpoint":                     typed((*Server).deleteEndpoint),
	"AddTags":                            typed((*Server).addTags),
	"ListTags":                           typed((*Server).listTags),
	"DeleteTags":                         typed((*Server).deleteTags),

	"CreateInferenceComponent":              typed((*Server).createInferenceComponent),
	"DescribeInferenceComponent":            typed((*Server).describeInferenceComponent),
	"ListInferenceComponents":               typed((*Server).listInferenceComponents),
	"UpdateInferenceComponent":              typed((*Server).updateInferenceComponent),
	"UpdateInferenceComponentRuntimeConfig": typed((*Server).updateInferenceComponentRuntimeConfig),
	"DeleteInferenceComponent":              typed((*Server).deleteInferenceComponent),
}
