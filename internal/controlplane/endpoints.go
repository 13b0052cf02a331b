package controlplane

import "slices"

// maxEndpoints is how many endpoints there may be by API: what bounds the state file and the metrics' series.
const maxEndpoints = 500

type createEndpointInput struct {
	endpointName
	endpointConfigName
	DeploymentConfig *deploymentConfig `json:"DeploymentConfig"`
	Tags             []tag             `json:"Tags" check:"length=..50"`
}

func (s *Server) createEndpoint(in *createEndpointInput) (endpointArn, error) {
	arn := s.arn("endpoint", in.EndpointName)
	if err := in.DeploymentConfig.supported(); err != nil {
		return endpointArn{}, err
	}
	err := s.update(func(next *state, now instant) error {
		if _, exists := next.Endpoints[key(in.EndpointName)]; exists {
			return invalid("Cannot create already existing endpoint %q.", arn)
		}
		if s.o.Configured(in.EndpointName) {
			return invalid("Cannot create already existing endpoint %q. It stands in Warmpath's configuration file, which this API does not change.", arn)
		}
		if len(next.Endpoints) >= maxEndpoints {
			return limitExceeded("Number of endpoints", maxEndpoints)
		}
		d, err := s.deploy(next, in.EndpointConfigName, now)
		next.Endpoints[key(in.EndpointName)] = endpoint{
			Name: in.EndpointName, Created: now, Modified: now, Status: creating, Tags: merged(nil, in.Tags), Next: d, Policy: in.DeploymentConfig,
		}
		return err
	})
	return endpointArn{arn}, err
}

// deploy puts the endpoint configuration of that name to use. Its pools may have gone since it was made.
func (s *Server) deploy(in *state, name string, now instant) (*deployment, error) {
	c, err := s.endpointConfig(in, name)
	if err != nil {
		return nil, err
	}
	if err := s.supports(c.Settings); err != nil {
		return nil, err
	}
	return c.deploy(now), nil
}

// supported refuses what would make traffic move otherwise than at once: Warmpath neither starts nor stops replicas, so there is no
// second fleet to move it to.
func (d *deploymentConfig) supported() error {
	const atOnce = "traffic moves at once, when the replicas of the new endpoint configuration are ready; use ALL_AT_ONCE, or weights"
	switch {
	case d == nil:
		return nil
	case given(d.RollingUpdatePolicy):
		return invalid("RollingUpdatePolicy is not supported by Warmpath: %s.", atOnce)
	case d.BlueGreenUpdatePolicy != nil && d.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.Type != "ALL_AT_ONCE":
		return invalid("TrafficRoutingConfiguration %s is not supported by Warmpath: %s.", d.BlueGreenUpdatePolicy.TrafficRoutingConfiguration.Type, atOnce)
	case d.AutoRollbackConfiguration != nil && len(d.AutoRollbackConfiguration.Alarms) > 0:
		return invalid("AutoRollbackConfiguration with Alarms is not supported by Warmpath: it has no CloudWatch alarms.")
	}
	return nil
}

// endpointNamed finds an endpoint by its name.
func (s *Server) endpointNamed(in *state, name string) (endpoint, error) {
	e, exists := in.Endpoints[key(name)]
	if !exists && s.o.Configured(name) {
		return e, invalid("Could not find endpoint %q. It stands in Warmpath's configuration file, which this API does not change.", s.arn("endpoint", name))
	}
	if !exists {
		return e, invalid("Could not find endpoint %q.", s.arn("endpoint", name))
	}
	return e, nil
}

// idle finds an endpoint that can be changed.
func (s *Server) idle(in *state, name string) (endpoint, error) {
	e, err := s.endpointNamed(in, name)
	if err == nil && e.busy() {
		err = invalid("Cannot update in-progress endpoint %q.", s.arn("endpoint", name))
	}
	return e, err
}

// usable finds an endpoint that can be updated: the only thing to do with a failed one is to delete it.
func (s *Server) usable(in *state, name string) (endpoint, error) {
	e, err := s.idle(in, name)
	if err == nil && e.Status == failed {
		err = invalid("Cannot update endpoint %q with status Failed. Delete it and create it again.", s.arn("endpoint", name))
	}
	return e, err
}

type updateEndpointInput struct {
	endpointName
	endpointConfigName
	DeploymentConfig                 *deploymentConfig `json:"DeploymentConfig"`
	RetainAllVariantProperties       bool              `json:"RetainAllVariantProperties"`
	RetainDeploymentConfig           bool              `json:"RetainDeploymentConfig"`
	ExcludeRetainedVariantProperties []variantProperty `json:"ExcludeRetainedVariantProperties" check:"length=..3"`
}

type variantProperty struct {
	VariantPropertyType string `json:"VariantPropertyType" check:"required,enum=DesiredInstanceCount|DesiredWeight|DataCaptureConfig"`
}

func (s *Server) updateEndpoint(in *updateEndpointInput) (endpointArn, error) {
	if err := in.DeploymentConfig.supported(); err != nil {
		return endpointArn{}, err
	}
	err := s.update(func(next *state, now instant) error {
		e, err := s.usable(next, in.EndpointName)
		if err != nil {
			return err
		}
		d, err := s.deploy(next, in.EndpointConfigName, now)
		if err != nil {
			return err
		}
		if err := next.keepsComponents(key(in.EndpointName), d); err != nil {
			return err
		}
		if in.RetainAllVariantProperties {
			retain(d.Variants, e.Current.Variants, in.ExcludeRetainedVariantProperties)
			retain(d.Shadows, e.Current.Shadows, in.ExcludeRetainedVariantProperties)
		}
		if d.totalWeight() == 0 {
			return invalid("The weight of every production variant would be 0; exclude DesiredWeight from the retained properties, or give one a weight above 0.")
		}
		if !in.RetainDeploymentConfig {
			e.Policy = in.DeploymentConfig
		}
		e.begin(d, now)
		next.Endpoints[key(in.EndpointName)] = e
		return nil
	})
	return endpointArn{s.arn("endpoint", in.EndpointName)}, err
}

// retain takes weights and counts from the variants of the same names, but for those properties that are excluded.
func retain(variants, from []variant, excluded []variantProperty) {
	keeps := func(property string) bool { return !slices.Contains(excluded, variantProperty{property}) }
	for i := range variants {
		v := &variants[i]
		j := slices.IndexFunc(from, func(old variant) bool { return old.Settings.VariantName == v.Settings.VariantName })
		if j < 0 {
			continue
		}
		if keeps("DesiredWeight") {
			v.Weight = from[j].Weight
		}
		if keeps("DesiredInstanceCount") {
			v.Count = from[j].Count
		}
	}
}

type updateEndpointWeightsAndCapacitiesInput struct {
	endpointName
	DesiredWeightsAndCapacities []desiredWeightAndCapacity `json:"DesiredWeightsAndCapacities" check:"required,length=1..10"`
}

type desiredWeightAndCapacity struct {
	VariantName          string   `json:"VariantName" check:"required,length=..63,match=name"`
	DesiredWeight        *float64 `json:"DesiredWeight" check:"range=0..3.4028235e+38"`
	DesiredInstanceCount *int     `json:"DesiredInstanceCount" check:"range=0.."`
}

func (s *Server) updateEndpointWeightsAndCapacities(in *updateEndpointWeightsAndCapacitiesInput) (endpointArn, error) {
	arn := s.arn("endpoint", in.EndpointName)
	err := s.update(func(next *state, now instant) error {
		e, err := s.usable(next, in.EndpointName)
		if err != nil {
			return err
		}
		d := *e.Current
		d.Started, d.Reweighs, d.Variants, d.Shadows = now, true, slices.Clone(d.Variants), slices.Clone(d.Shadows)
		for _, want := range in.DesiredWeightsAndCapacities {
			if !set(d.Variants, want) && !set(d.Shadows, want) {
				return invalid("Could not find variant %q of endpoint %q.", want.VariantName, arn)
			}
		}
		if d.totalWeight() == 0 {
			return invalid("The weight of every production variant would be 0; give one a weight above 0, or delete the endpoint.")
		}
		e.begin(&d, now)
		next.Endpoints[key(in.EndpointName)] = e
		return nil
	})
	return endpointArn{arn}, err
}

// set changes what is wanted of a variant and says whether there is one of that name.
func set(variants []variant, want desiredWeightAndCapacity) bool {
	for i := range variants {
		v := &variants[i]
		if v.Settings.VariantName != want.VariantName {
			continue
		}
		if want.DesiredWeight != nil {
			v.Weight = *want.DesiredWeight
		}
		if want.DesiredInstanceCount != nil {
			v.Count = *want.DesiredInstanceCount
		}
		return true
	}
	return false
}

func (s *Server) deleteEndpoint(in *endpointName) (nothing, error) {
	return nothing{}, s.update(func(next *state, now instant) error {
		e, err := s.idle(next, in.EndpointName)
		if err != nil {
			return err
		}
		if len(next.componentsOf(key(in.EndpointName))) > 0 {
			return invalid("Cannot delete endpoint with inference component associated. Please delete inference component and try it again.")
		}
		e.Status, e.Modified = deleting, now
		next.Endpoints[key(in.EndpointName)] = e
		return nil
	})
}
