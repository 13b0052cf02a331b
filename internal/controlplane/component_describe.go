package controlplane

type describeInferenceComponentOutput struct {
	componentSummary
	FailureReason string                  `json:"FailureReason,omitzero"`
	Specification componentSpecification  `json:"Specification"`
	RuntimeConfig componentRuntimeSummary `json:"RuntimeConfig"`
}

// componentSummary is what lists and descriptions have in common.
type componentSummary struct {
	InferenceComponentName   string  `json:"InferenceComponentName"`
	InferenceComponentArn    string  `json:"InferenceComponentArn"`
	EndpointName             string  `json:"EndpointName"`
	EndpointArn              string  `json:"EndpointArn"`
	VariantName              string  `json:"VariantName"`
	CreationTime             instant `json:"CreationTime"`
	LastModifiedTime         instant `json:"LastModifiedTime"`
	InferenceComponentStatus status  `json:"InferenceComponentStatus"`
}

// componentRuntimeSummary has what is wanted and what the pool has ready: Warmpath starts no replicas.
type componentRuntimeSummary struct {
	DesiredCopyCount int `json:"DesiredCopyCount"`
	CurrentCopyCount int `json:"CurrentCopyCount"`
}

func (s *Server) componentSummary(c component) componentSummary {
	return componentSummary{
		InferenceComponentName: c.Name, InferenceComponentArn: s.arn("inference-component", c.Name),
		EndpointName: c.Endpoint, EndpointArn: s.arn("endpoint", c.Endpoint), VariantName: c.Variant,
		CreationTime: c.Created, LastModifiedTime: c.Modified, InferenceComponentStatus: c.Status,
	}
}

// describeInferenceComponent shows what is in service, or is to be if nothing is, and the copies that are wanted in the end.
func (s *Server) describeInferenceComponent(in *componentName) (describeInferenceComponentOutput, error) {
	c, err := s.componentNamed(s.state.Load(), in.InferenceComponentName)
	if err != nil {
		return describeInferenceComponentOutput{}, err
	}
	out := describeInferenceComponentOutput{componentSummary: s.componentSummary(c), FailureReason: c.FailureReason}
	for _, p := range []*componentPlan{c.Next, c.Current} {
		if p != nil {
			out.Specification = p.Specification
			out.RuntimeConfig.DesiredCopyCount = p.Copies
		}
	}
	if p := c.Current; p != nil && p.Copies > 0 {
		out.RuntimeConfig.CurrentCopyCount, _ = s.o.Pool(p.Specification.ModelName)
	}
	if c.Next != nil {
		out.RuntimeConfig.DesiredCopyCount = c.Next.Copies
	}
	return out, nil
}

type listInferenceComponentsInput struct {
	SortBy                 string   `json:"SortBy" check:"enum=Name|CreationTime|Status"`
	NameContains           string   `json:"NameContains" check:"length=..63,match=contains"`
	StatusEquals           status   `json:"StatusEquals" check:"enum=InService|Creating|Updating|Failed|Deleting"`
	EndpointNameEquals     string   `json:"EndpointNameEquals" check:"length=..63,match=name"`
	VariantNameEquals      string   `json:"VariantNameEquals" check:"length=..63,match=name"`
	CreationTimeBefore     *instant `json:"CreationTimeBefore"`
	CreationTimeAfter      *instant `json:"CreationTimeAfter"`
	LastModifiedTimeBefore *instant `json:"LastModifiedTimeBefore"`
	LastModifiedTimeAfter  *instant `json:"LastModifiedTimeAfter"`
	paging
}

func (in *listInferenceComponentsInput) matches(c component) bool {
	return contains(c.Name, in.NameContains) && (in.StatusEquals == "" || in.StatusEquals == c.Status) &&
		(in.EndpointNameEquals == "" || key(in.EndpointNameEquals) == key(c.Endpoint)) &&
		(in.VariantNameEquals == "" || key(in.VariantNameEquals) == key(c.Variant)) &&
		between(c.Created, in.CreationTimeAfter, in.CreationTimeBefore) &&
		between(c.Modified, in.LastModifiedTimeAfter, in.LastModifiedTimeBefore)
}

type listInferenceComponentsOutput struct {
	InferenceComponents []componentSummary `json:"InferenceComponents"`
	NextToken           string             `json:"NextToken,omitzero"`
}

func (s *Server) listInferenceComponents(in *listInferenceComponentsInput) (out listInferenceComponentsOutput, err error) {
	var rows []row[componentSummary]
	for _, c := range s.state.Load().Components {
		if !in.matches(c) {
			continue
		}
		r := row[componentSummary]{Name: c.Name, Item: s.componentSummary(c)}
		switch in.SortBy {
		case "Name": // rows are in the order of names where nothing else decides
		case "Status":
			r.Sort = string(c.Status)
		default:
			r.Sort = c.Created.sortable()
		}
		rows = append(rows, r)
	}
	out.InferenceComponents, out.NextToken, err = cut(rows, in.SortBy, in.paging)
	return out, err
}
