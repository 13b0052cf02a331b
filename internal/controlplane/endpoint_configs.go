package controlplane

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxConfigs is how many endpoint configurations there may be: what bounds the state file.
const maxConfigs = 1000

type createEndpointConfigInput struct {
	endpointConfigName
	configSettings
	Tags []tag `json:"Tags" check:"length=..50"`
}

func (s *Server) createEndpointConfig(in *createEndpointConfigInput) (endpointConfigArn, error) {
	arn := s.arn("endpoint-config", in.EndpointConfigName)
	if err := s.supports(in.configSettings); err != nil {
		return endpointConfigArn{}, err
	}
	err := s.update(func(next *state, now instant) error {
		if _, exists := next.Configs[key(in.EndpointConfigName)]; exists {
			return invalid("Cannot create already existing endpoint configuration %q.", arn)
		}
		if len(next.Configs) >= maxConfigs {
			return limitExceeded("Number of endpoint configurations", maxConfigs)
		}
		next.Configs[key(in.EndpointConfigName)] = endpointConfig{
			Name: in.EndpointConfigName, Created: now, Tags: merged(nil, in.Tags), Settings: in.configSettings,
		}
		return nil
	})
	return endpointConfigArn{arn}, err
}

// supports refuses what Warmpath would have to ignore although a client relies on it.
func (s *Server) supports(in configSettings) error {
	for _, member := range []struct {
		name, why string
		given     bool
	}{
		{"AsyncInferenceConfig", "requests are answered while the client waits", given(in.AsyncInferenceConfig)},
		{"ExplainerConfig", "there is no explainer", given(in.ExplainerConfig)},
		{"DataCaptureConfig with EnableCapture", "prompts and answers are never stored", captures(in.DataCaptureConfig)},
	} {
		if member.given {
			return invalid("%s is not supported by Warmpath: %s.", member.name, member.why)
		}
	}
	names := map[string]bool{}
	for _, v := range slices.Concat(in.ProductionVariants, in.ShadowProductionVariants) {
		if err := s.supportsVariant(v); err != nil {
			return err
		}
		if names[key(v.VariantName)] {
			return invalid("Production variant names must be unique: %q is there twice.", v.VariantName)
		}
		names[key(v.VariantName)] = true
	}
	if !slices.ContainsFunc(in.ProductionVariants, func(v productionVariant) bool { return variantWeight(v) > 0 }) {
		return invalid("InitialVariantWeight is 0 in every production variant; give one a weight above 0.")
	}
	if err := in.supportsComponents(); err != nil {
		return err
	}
	return in.shadowing()
}

// shadowing refuses shadow variants beside more than one variant, as SageMaker does, and those that would slow whom they shadow.
func (in configSettings) shadowing() error {
	production, shadows := in.ProductionVariants, in.ShadowProductionVariants
	switch {
	case len(shadows) == 0:
		return nil
	case len(production) != 1 || len(shadows) != 1:
		return invalid("With ShadowProductionVariants there must be 1 production variant and 1 shadow variant; there are %d and %d.", len(production), len(shadows))
	case production[0].ModelName == "":
		return invalid("ShadowProductionVariants is not supported by Warmpath beside inference components; give the production variant a ModelName, or leave the shadow out.")
	case shadows[0].ModelName == "":
		return invalid("Shadow variant %q has no ModelName; name a pool of Warmpath's configuration.", shadows[0].VariantName)
	case production[0].ModelName == shadows[0].ModelName:
		return invalid("Shadow variant %q has the ModelName of the production variant. In Warmpath it names a pool of replicas, and the copies would slow the requests of clients there; name another pool.", shadows[0].VariantName)
	}
	return nil
}

func (s *Server) supportsVariant(v productionVariant) error {
	switch {
	case given(v.ServerlessConfig):
		return invalid("ServerlessConfig is not supported by Warmpath: production variant %q needs a ModelName that names a pool of replicas.", v.VariantName)
	case given(v.ManagedInstanceScaling) && v.ModelName != "": // SageMaker takes it for inference components only
		return invalid("ManagedInstanceScaling is not supported by Warmpath: the replicas of production variant %q are those that its pool finds.", v.VariantName)
	case v.ModelName == "":
		return nil // see supportsComponents
	}
	return s.poolExists(v.ModelName)
}

func (s *Server) poolExists(model string) error {
	if _, exists := s.o.Pool(model); !exists {
		return invalid("Could not find model %q. ModelName names a pool of Warmpath's configuration, and it has no pool %s.", s.arn("model", model), model)
	}
	return nil
}

// captures says that requests would have to be stored. What cannot be read is not taken for a no.
func captures(v jsontext.Value) bool {
	var capture struct{ EnableCapture bool }
	return given(v) && (json.Unmarshal(v, &capture) != nil || capture.EnableCapture)
}

func variantWeight(v productionVariant) float64 {
	if v.InitialVariantWeight == nil {
		return 1
	}
	return *v.InitialVariantWeight
}

// limitExceeded is the answer to one more of something than there may be.
func limitExceeded(what string, limit int) error {
	return &apiError{400, "ResourceLimitExceeded", fmt.Sprintf(
		"The account-level service limit '%s' is %d, with current utilization of %d and a request delta of 1. Delete what is no longer used.", what, limit, limit)}
}

type describeEndpointConfigOutput struct {
	EndpointConfigName string  `json:"EndpointConfigName"`
	EndpointConfigArn  string  `json:"EndpointConfigArn"`
	CreationTime       instant `json:"CreationTime"`
	configSettings
}

func (s *Server) describeEndpointConfig(in *endpointConfigName) (describeEndpointConfigOutput, error) {
	c, err := s.endpointConfig(s.state.Load(), in.EndpointConfigName)
	return describeEndpointConfigOutput{
		EndpointConfigName: c.Name, EndpointConfigArn: s.arn("endpoint-config", c.Name), CreationTime: c.Created, configSettings: c.Settings,
	}, err
}

// endpointConfig finds an endpoint configuration by its name.
func (s *Server) endpointConfig(in *state, name string) (endpointConfig, error) {
	c, exists := in.Configs[key(name)]
	if !exists {
		return c, invalid("Could not find endpoint configuration %q.", s.arn("endpoint-config", name))
	}
	return c, nil
}

// deleteEndpointConfig deletes even one in use, as SageMaker does: endpoints keep what they were made with.
func (s *Server) deleteEndpointConfig(in *endpointConfigName) (nothing, error) {
	return nothing{}, s.update(func(next *state, _ instant) error {
		_, err := s.endpointConfig(next, in.EndpointConfigName)
		delete(next.Configs, key(in.EndpointConfigName))
		return err
	})
}

type listEndpointConfigsInput struct {
	SortBy             string   `json:"SortBy" check:"enum=Name|CreationTime"`
	NameContains       string   `json:"NameContains" check:"length=..63,match=contains"`
	CreationTimeBefore *instant `json:"CreationTimeBefore"`
	CreationTimeAfter  *instant `json:"CreationTimeAfter"`
	paging
}

type endpointConfigSummary struct {
	EndpointConfigName string  `json:"EndpointConfigName"`
	EndpointConfigArn  string  `json:"EndpointConfigArn"`
	CreationTime       instant `json:"CreationTime"`
}

type listEndpointConfigsOutput struct {
	EndpointConfigs []endpointConfigSummary `json:"EndpointConfigs"`
	NextToken       string                  `json:"NextToken,omitzero"`
}

func (s *Server) listEndpointConfigs(in *listEndpointConfigsInput) (out listEndpointConfigsOutput, err error) {
	var rows []row[endpointConfigSummary]
	for _, c := range s.state.Load().Configs {
		if !contains(c.Name, in.NameContains) || !between(c.Created, in.CreationTimeAfter, in.CreationTimeBefore) {
			continue
		}
		r := row[endpointConfigSummary]{Name: c.Name, Item: endpointConfigSummary{c.Name, s.arn("endpoint-config", c.Name), c.Created}}
		if in.SortBy != "Name" {
			r.Sort = c.Created.sortable()
		}
		rows = append(rows, r)
	}
	out.EndpointConfigs, out.NextToken, err = cut(rows, in.SortBy, in.paging)
	return out, err
}

// contains is the filter NameContains, without regard to case, as names are.
func contains(name, part string) bool { return strings.Contains(key(name), key(part)) }

// between says whether a moment is not before after and before before; nil is no bound.
func between(t instant, after, before *instant) bool {
	return (after == nil || !t.Before(after.Time)) && (before == nil || t.Before(before.Time))
}

// merged is tags with more of them; a key that is there gets the new value.
func merged(tags, more []tag) []tag {
	all := slices.Clone(tags)
	for _, t := range more {
		i := slices.IndexFunc(all, func(have tag) bool { return have.Key == t.Key })
		if i < 0 {
			all = append(all, t)
		} else {
			all[i] = t
		}
	}
	return all
}
