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

	"ListInferenceComponents":               typed((*Server).listInferenceComponents),
	"CreateInferenceComponent":              typed(noInferenceComponents),
	"DescribeInferenceComponent":            typed(noInferenceComponents),
	"UpdateInferenceComponent":              typed(noInferenceComponents),
	"UpdateInferenceComponentRuntimeConfig": typed(noInferenceComponents),
	"DeleteInferenceComponent":              typed(noInferenceComponents),
}

type listInferenceComponentsOutput struct {
	InferenceComponents []nothing `json:"InferenceComponents"`
}

// listInferenceComponents lists none: tools ask before they delete an endpoint.
func (s *Server) listInferenceComponents(*nothing) (listInferenceComponentsOutput, error) {
	return listInferenceComponentsOutput{[]nothing{}}, nil
}

func noInferenceComponents(*Server, *nothing) (nothing, error) {
	return nothing{}, invalid("Inference components are not supported by this version of Warmpath. Name a pool of its configuration in the ModelName of a production variant.")
}
