package controlplane

import "github.com/go-json-experiment/json/jsontext"

type describeEndpointOutput struct {
	EndpointName             string                    `json:"EndpointName"`
	EndpointArn              string                    `json:"EndpointArn"`
	EndpointConfigName       string                    `json:"EndpointConfigName,omitzero"`
	EndpointStatus           status                    `json:"EndpointStatus"`
	FailureReason            string                    `json:"FailureReason,omitzero"`
	CreationTime             instant                   `json:"CreationTime"`
	LastModifiedTime         instant                   `json:"LastModifiedTime"`
	ProductionVariants       []variantSummary          `json:"ProductionVariants,omitzero"`
	ShadowProductionVariants []variantSummary          `json:"ShadowProductionVariants,omitzero"`
	PendingDeploymentSummary *pendingDeploymentSummary `json:"PendingDeploymentSummary,omitzero"`
	LastDeploymentConfig     *deploymentConfig         `json:"LastDeploymentConfig,omitzero"`
	MetricsConfig            jsontext.Value            `json:"MetricsConfig,omitzero"`
}

// variantSummary is a variant in service. A count is what the pool has ready, whatever was wished for: Warmpath starts no replicas.
type variantSummary struct {
	VariantName          string         `json:"VariantName"`
	CurrentWeight        float64        `json:"CurrentWeight"`
	DesiredWeight        float64        `json:"DesiredWeight"`
	CurrentInstanceCount int            `json:"CurrentInstanceCount"`
	DesiredInstanceCount int            `json:"DesiredInstanceCount"`
	RoutingConfig        *routingConfig `json:"RoutingConfig,omitzero"`
}

type pendingDeploymentSummary struct {
	EndpointConfigName       string                  `json:"EndpointConfigName"`
	StartTime                instant                 `json:"StartTime"`
	ProductionVariants       []pendingVariantSummary `json:"ProductionVariants"`
	ShadowProductionVariants []pendingVariantSummary `json:"ShadowProductionVariants,omitzero"`
}

type pendingVariantSummary struct {
	variantSummary
	InstanceType    string          `json:"InstanceType,omitzero"`
	AcceleratorType string          `json:"AcceleratorType,omitzero"`
	VariantStatus   []variantStatus `json:"VariantStatus"`
}

type variantStatus struct {
	Status    status  `json:"Status"`
	StartTime instant `json:"StartTime"`
}

func (s *Server) describeEndpoint(in *endpointName) (describeEndpointOutput, error) {
	e, err := s.endpointNamed(s.state.Load(), in.EndpointName)
	if err != nil {
		return describeEndpointOutput{}, err
	}
	out := describeEndpointOutput{
		EndpointName: e.Name, EndpointArn: s.arn("endpoint", e.Name), EndpointStatus: e.Status, FailureReason: e.FailureReason,
		CreationTime: e.Created, LastModifiedTime: e.Modified, LastDeploymentConfig: e.Policy,
	}
	if d := e.Next; d != nil {
		out.EndpointConfigName, out.MetricsConfig = d.ConfigName, d.Settings.MetricsConfig
		if !d.Reweighs {
			out.PendingDeploymentSummary = s.pending(d)
		}
	}
	if d := e.Current; d != nil {
		out.EndpointConfigName, out.MetricsConfig = d.ConfigName, d.Settings.MetricsConfig
		wanted := d
		if e.Next != nil && e.Next.Reweighs {
			wanted = e.Next
		}
		out.ProductionVariants, out.ShadowProductionVariants = s.summaries(d.Variants, wanted.Variants), s.summaries(d.Shadows, wanted.Shadows)
	}
	return out, nil
}

// summaries describes variants, of which the weights and counts in wanted are wanted.
func (s *Server) summaries(variants, wanted []variant) (all []variantSummary) {
	for i, v := range variants {
		summary := s.summary(v)
		summary.DesiredWeight, summary.DesiredInstanceCount = wanted[i].Weight, wanted[i].Count
		all = append(all, summary)
	}
	return all
}

func (s *Server) summary(v variant) variantSummary {
	ready, _ := s.o.Pool(v.Settings.ModelName)
	if v.Settings.ModelName == "" { // the copies of its components are counted with them
		ready = v.Count
	}
	return variantSummary{
		VariantName: v.Settings.VariantName, CurrentWeight: v.Weight, DesiredWeight: v.Weight,
		CurrentInstanceCount: ready, DesiredInstanceCount: v.Count, RoutingConfig: v.Settings.RoutingConfig,
	}
}

func (s *Server) pending(d *deployment) *pendingDeploymentSummary {
	return &pendingDeploymentSummary{
		EndpointConfigName: d.ConfigName, StartTime: d.Started,
		ProductionVariants: s.pendingVariants(d.Variants, d.Started), ShadowProductionVariants: s.pendingVariants(d.Shadows, d.Started),
	}
}

func (s *Server) pendingVariants(variants []variant, started instant) (all []pendingVariantSummary) {
	for _, v := range variants {
		all = append(all, pendingVariantSummary{
			variantSummary: s.summary(v), InstanceType: v.Settings.InstanceType, AcceleratorType: v.Settings.AcceleratorType,
			VariantStatus: []variantStatus{{creating, started}},
		})
	}
	return all
}

type listEndpointsInput struct {
	SortBy                 string   `json:"SortBy" check:"enum=Name|CreationTime|Status"`
	NameContains           string   `json:"NameContains" check:"length=..63,match=contains"`
	StatusEquals           status   `json:"StatusEquals" check:"enum=OutOfService|Creating|Updating|SystemUpdating|RollingBack|InService|Deleting|Failed|UpdateRollbackFailed"`
	CreationTimeBefore     *instant `json:"CreationTimeBefore"`
	CreationTimeAfter      *instant `json:"CreationTimeAfter"`
	LastModifiedTimeBefore *instant `json:"LastModifiedTimeBefore"`
	LastModifiedTimeAfter  *instant `json:"LastModifiedTimeAfter"`
	paging
}

func (in *listEndpointsInput) matches(e endpoint) bool {
	return contains(e.Name, in.NameContains) && (in.StatusEquals == "" || in.StatusEquals == e.Status) &&
		between(e.Created, in.CreationTimeAfter, in.CreationTimeBefore) &&
		between(e.Modified, in.LastModifiedTimeAfter, in.LastModifiedTimeBefore)
}

type endpointSummary struct {
	EndpointName     string  `json:"EndpointName"`
	EndpointArn      string  `json:"EndpointArn"`
	CreationTime     instant `json:"CreationTime"`
	LastModifiedTime instant `json:"LastModifiedTime"`
	EndpointStatus   status  `json:"EndpointStatus"`
}

type listEndpointsOutput struct {
	Endpoints []endpointSummary `json:"Endpoints"`
	NextToken string            `json:"NextToken,omitzero"`
}

func (s *Server) listEndpoints(in *listEndpointsInput) (out listEndpointsOutput, err error) {
	var rows []row[endpointSummary]
	for _, e := range s.state.Load().Endpoints {
		if !in.matches(e) {
			continue
		}
		r := row[endpointSummary]{Name: e.Name, Item: endpointSummary{e.Name, s.arn("endpoint", e.Name), e.Created, e.Modified, e.Status}}
		switch in.SortBy {
		case "Name": // rows are in the order of names where nothing else decides
		case "Status":
			r.Sort = string(e.Status)
		default:
			r.Sort = e.Created.sortable()
		}
		rows = append(rows, r)
	}
	out.Endpoints, out.NextToken, err = cut(rows, in.SortBy, in.paging)
	return out, err
}
