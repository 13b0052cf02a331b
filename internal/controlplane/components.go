package controlplane

import "github.com/go-json-experiment/json/jsontext"

// maxComponents is how many inference components there may be by API: what bounds the state file and the metrics' series.
const maxComponents = 1000

// componentSpecification is what is to run. ModelName names the pool whose replicas are the copies.
type componentSpecification struct {
	ModelName                   string             `json:"ModelName,omitzero" check:"length=..63,match=model"`
	InstanceType                string             `json:"InstanceType,omitzero" check:"length=..64"`
	StartupParameters           *startupParameters `json:"StartupParameters,omitzero"`
	ComputeResourceRequirements jsontext.Value     `json:"ComputeResourceRequirements,omitzero"`
	DataCacheConfig             jsontext.Value     `json:"DataCacheConfig,omitzero"`
	SchedulingConfig            jsontext.Value     `json:"SchedulingConfig,omitzero"`
	BaseInferenceComponentName  string             `json:"BaseInferenceComponentName,omitzero" check:"length=..63,match=model"`
	Container                   jsontext.Value     `json:"Container,omitzero"`
}

type startupParameters struct {
	DownloadTimeout    *int `json:"ModelDataDownloadTimeoutInSeconds,omitzero" check:"range=60..3600"`
	HealthCheckTimeout *int `json:"ContainerStartupHealthCheckTimeoutInSeconds,omitzero" check:"range=60..3600"`
}

// copyCount is how many copies are wanted. The pool decides how many there are; 0 takes the component's requests from it.
type copyCount struct {
	CopyCount *int `json:"CopyCount" check:"required,range=0.."`
}

type componentName struct {
	InferenceComponentName string `json:"InferenceComponentName" check:"required,length=..63,match=model"`
}

type componentArn struct {
	InferenceComponentArn string `json:"InferenceComponentArn"`
}

type createInferenceComponentInput struct {
	componentName
	endpointName
	VariantName    string                  `json:"VariantName" check:"length=..63,match=name"`
	Specification  *componentSpecification `json:"Specification"`
	Specifications jsontext.Value          `json:"Specifications"`
	RuntimeConfig  *copyCount              `json:"RuntimeConfig"`
	Tags           []tag                   `json:"Tags" check:"length=..50"`
}

func (s *Server) createInferenceComponent(in *createInferenceComponentInput) (componentArn, error) {
	arn := s.arn("inference-component", in.InferenceComponentName)
	if in.Specification == nil && !given(in.Specifications) {
		return componentArn{}, invalid("1 validation error detected: %s", violation("null", "specification", "not be null"))
	}
	if err := s.supportsSpecification(in.Specification, in.Specifications); err != nil {
		return componentArn{}, err
	}
	plan := &componentPlan{Copies: 1, Specification: *in.Specification}
	if in.RuntimeConfig != nil {
		plan.Copies = *in.RuntimeConfig.CopyCount
	}
	err := s.update(func(next *state, now instant) error {
		if _, exists := next.Components[key(in.InferenceComponentName)]; exists {
			return invalid("Cannot create already existing inference component %q.", arn)
		}
		if len(next.Components) >= maxComponents {
			return limitExceeded("Number of inference components", maxComponents)
		}
		endpoint, variant, err := s.host(next, in.EndpointName, in.VariantName)
		plan.Started = now
		next.Components[key(in.InferenceComponentName)] = component{
			Name: in.InferenceComponentName, Endpoint: endpoint, Variant: variant, Created: now, Modified: now, Status: creating,
			Tags: merged(nil, in.Tags), Next: plan,
		}
		return err
	})
	return componentArn{arn}, err
}

// supportsSpecification refuses what Warmpath would have to ignore although a client relies on it.
func (s *Server) supportsSpecification(one *componentSpecification, many jsontext.Value) error {
	switch {
	case given(many):
		return invalid("Specifications is not supported by Warmpath: replicas have no instance types to tell them apart; use Specification.")
	case one.BaseInferenceComponentName != "":
		return invalid("BaseInferenceComponentName is not supported by Warmpath: it loads no adapters. Let the engines of the pool of %q serve the adapter, and name it as the model of a request to that inference component.", one.BaseInferenceComponentName)
	case given(one.Container):
		return invalid("Container is not supported by Warmpath: it starts no containers. ModelName names a pool of its configuration, whose replicas run already.")
	case one.ModelName == "":
		return invalid("Specification has no ModelName; name a pool of Warmpath's configuration.")
	}
	return s.poolExists(one.ModelName)
}

// supportsComponents refuses production variants of which some have pools of their own and some wait for inference components.
func (in configSettings) supportsComponents() error {
	first := in.ProductionVariants[0]
	for _, v := range in.ProductionVariants {
		if (v.ModelName == "") != (first.ModelName == "") {
			return invalid("Production variants %q and %q are unlike: name a ModelName in each, or in none and deploy inference components to them.", first.VariantName, v.VariantName)
		}
	}
	if first.ModelName == "" && in.ExecutionRoleArn == "" {
		return invalid("Production variant %q has no ModelName. Name a pool of Warmpath's configuration, or set ExecutionRoleArn and deploy inference components to it.", first.VariantName)
	}
	return nil
}

// host finds the endpoint and the variant to which a component is to be deployed. The variant may be left out where there is one.
func (s *Server) host(in *state, endpointName, variantName string) (endpoint, variant string, err error) {
	e, err := s.endpointNamed(in, endpointName)
	arn := s.arn("endpoint", endpointName)
	switch {
	case err != nil:
		return "", "", err
	case e.Status == failed || e.Status == deleting:
		return "", "", invalid("Cannot create inference component on endpoint %q with status %s.", arn, e.Status)
	}
	for _, d := range []*deployment{e.Current, e.Next} {
		if d == nil {
			continue
		}
		if variantName == "" && len(d.Variants) == 1 {
			variantName = d.Variants[0].Settings.VariantName
		}
		switch {
		case variantName == "":
			return "", "", invalid("1 validation error detected: %s", violation("null", "variantName", "not be null where the endpoint has several variants"))
		case !d.hosts(variantName):
			return "", "", invalid("Could not find variant %q without ModelName of endpoint %q. Inference components are deployed to the variants of an endpoint configuration with ExecutionRoleArn and without ModelName.", variantName, arn)
		}
	}
	return e.Name, variantName, nil
}

// componentNamed finds an inference component by its name.
func (s *Server) componentNamed(in *state, name string) (component, error) {
	c, exists := in.Components[key(name)]
	if !exists {
		return c, invalid("Could not find inference component %q.", s.arn("inference-component", name))
	}
	return c, nil
}

// idleComponent finds an inference component that can be changed.
func (s *Server) idleComponent(in *state, name string) (component, error) {
	c, err := s.componentNamed(in, name)
	if err == nil && c.busy() {
		err = invalid("Cannot update in-progress inference component %q.", s.arn("inference-component", name))
	}
	return c, err
}

type updateInferenceComponentInput struct {
	componentName
	Specification    *componentSpecification `json:"Specification"`
	Specifications   jsontext.Value          `json:"Specifications"`
	RuntimeConfig    *copyCount              `json:"RuntimeConfig"`
	DeploymentConfig jsontext.Value          `json:"DeploymentConfig"`
}

func (s *Server) updateInferenceComponent(in *updateInferenceComponentInput) (componentArn, error) {
	if given(in.DeploymentConfig) {
		return componentArn{}, invalid("DeploymentConfig is not supported by Warmpath: requests move at once, when a replica of the pool is ready.")
	}
	if in.Specification != nil || given(in.Specifications) {
		if err := s.supportsSpecification(in.Specification, in.Specifications); err != nil {
			return componentArn{}, err
		}
	} else if in.RuntimeConfig == nil {
		return componentArn{}, invalid("Specification or RuntimeConfig is needed: there is nothing to update.")
	}
	return s.redeploy(in.InferenceComponentName, func(p *componentPlan) {
		if in.Specification != nil {
			p.Specification = *in.Specification
		}
		if in.RuntimeConfig != nil {
			p.Copies = *in.RuntimeConfig.CopyCount
		}
	})
}

type updateInferenceComponentRuntimeConfigInput struct {
	componentName
	DesiredRuntimeConfig *copyCount `json:"DesiredRuntimeConfig" check:"required"`
}

func (s *Server) updateInferenceComponentRuntimeConfig(in *updateInferenceComponentRuntimeConfigInput) (componentArn, error) {
	return s.redeploy(in.InferenceComponentName, func(p *componentPlan) { p.Copies = *in.DesiredRuntimeConfig.CopyCount })
}

// redeploy begins an update: what the component is made of, changed. The only thing to do with a failed one is to delete it.
func (s *Server) redeploy(name string, change func(*componentPlan)) (componentArn, error) {
	arn := s.arn("inference-component", name)
	err := s.update(func(next *state, now instant) error {
		c, err := s.idleComponent(next, name)
		switch {
		case err != nil:
			return err
		case c.Current == nil:
			return invalid("Cannot update inference component %q with status Failed. Delete it and create it again.", arn)
		}
		plan := *c.Current
		change(&plan)
		plan.Started = now
		c.Status, c.Modified, c.FailureReason, c.Next = updating, now, "", &plan
		next.Components[key(name)] = c
		return nil
	})
	return componentArn{arn}, err
}

func (s *Server) deleteInferenceComponent(in *componentName) (nothing, error) {
	return nothing{}, s.update(func(next *state, now instant) error {
		c, err := s.idleComponent(next, in.InferenceComponentName)
		c.Status, c.Modified = deleting, now
		if err == nil {
			next.Components[key(in.InferenceComponentName)] = c
		}
		return err
	})
}
