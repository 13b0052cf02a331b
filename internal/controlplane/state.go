package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// stateVersion is the version of the state file's form.
const stateVersion = 1

// startupTimeout is how long an endpoint may wait for its replicas where no variant says otherwise.
const startupTimeout = 10 * time.Minute

// state is everything that was made by API. It is never changed: an operation builds the next one. Maps are keyed by names in lower
// case, as ARNs are, so that names differ by more than case.
type state struct {
	Version   int                       `json:"version"`
	Configs   map[string]endpointConfig `json:"endpoint_configs"`
	Endpoints map[string]endpoint       `json:"endpoints"`
	// Components is left out where it is empty, so that a version that knows none can read the file.
	Components map[string]component `json:"inference_components,omitempty"`
}

// endpointConfig is an endpoint configuration.
type endpointConfig struct {
	Name     string         `json:"name"`
	Created  instant        `json:"created"`
	Tags     []tag          `json:"tags,omitzero"`
	Settings configSettings `json:"settings"`
}

// status is an EndpointStatus.
type status string

const (
	creating  status = "Creating"
	updating  status = "Updating"
	inService status = "InService"
	deleting  status = "Deleting"
	failed    status = "Failed"
)

// fits says whether what has this status serves with something, current, and is on its way to something, next.
func (s status) fits(current, next bool) bool {
	want := map[status][2]bool{creating: {false, true}, updating: {true, true}, inService: {true, false}, failed: {false, false}}
	parts, known := want[s]
	return s == deleting || known && parts == [2]bool{current, next}
}

// endpoint is an endpoint: what it serves with, and what it is on its way to.
type endpoint struct {
	Name          string            `json:"name"`
	Created       instant           `json:"created"`
	Modified      instant           `json:"modified"`
	Status        status            `json:"status"`
	FailureReason string            `json:"failure_reason,omitzero"`
	Tags          []tag             `json:"tags,omitzero"`
	Current       *deployment       `json:"current,omitzero"`
	Next          *deployment       `json:"next,omitzero"`
	Policy        *deploymentConfig `json:"deployment_config,omitzero"`
}

// deployment is an endpoint configuration put to use: a copy, so that the configuration can be deleted, with the weights and counts
// that were set since.
type deployment struct {
	ConfigName string         `json:"endpoint_config"`
	Started    instant        `json:"started"`
	Variants   []variant      `json:"variants"`
	Shadows    []variant      `json:"shadows,omitzero"`
	Settings   configSettings `json:"settings"` // without variants
	// Reweighs says that only weights and counts differ from what is in service.
	Reweighs bool `json:"reweighs,omitzero"`
}

// variant is a production variant with the weight and count that are wanted of it now.
type variant struct {
	Weight   float64           `json:"desired_weight"`
	Count    int               `json:"desired_instance_count"`
	Settings productionVariant `json:"settings"`
}

func emptyState() *state {
	return &state{Version: stateVersion, Configs: map[string]endpointConfig{}, Endpoints: map[string]endpoint{}, Components: map[string]component{}}
}

// clone is a copy whose maps may be changed. What they hold may only be replaced.
func (s *state) clone() *state {
	return &state{Version: s.Version, Configs: maps.Clone(s.Configs), Endpoints: maps.Clone(s.Endpoints), Components: maps.Clone(s.Components)}
}

func key(name string) string { return strings.ToLower(name) }

// deploy puts an endpoint configuration to use.
func (c endpointConfig) deploy(now instant) *deployment {
	d := &deployment{
		ConfigName: c.Name, Started: now, Settings: c.Settings,
		Variants: initial(c.Settings.ProductionVariants), Shadows: initial(c.Settings.ShadowProductionVariants),
	}
	d.Settings.ProductionVariants, d.Settings.ShadowProductionVariants = nil, nil
	return d
}

// initial are variants as an endpoint configuration wants them.
func initial(settings []productionVariant) (all []variant) {
	for _, p := range settings {
		v := variant{Weight: variantWeight(p), Count: 1, Settings: p}
		if p.InitialInstanceCount != nil {
			v.Count = *p.InitialInstanceCount
		}
		all = append(all, v)
	}
	return all
}

// all lists the variants, then the shadows.
func (d *deployment) all() []variant { return slices.Concat(d.Variants, d.Shadows) }

// timeout is how long the deployment may wait for its replicas.
func (d *deployment) timeout() time.Duration {
	longest := time.Duration(0)
	for _, v := range d.all() {
		if seconds := v.Settings.StartupTimeout; seconds != nil {
			longest = max(longest, time.Duration(*seconds)*time.Second)
		}
	}
	if longest == 0 {
		return startupTimeout
	}
	return longest
}

// totalWeight is the sum of the weights of the variants that serve clients.
func (d *deployment) totalWeight() (sum float64) {
	for _, v := range d.Variants {
		sum += v.Weight
	}
	return sum
}

// serving gives what each endpoint serves with: variants, components and shadows. Those that do not serve, or not yet, have none and hold
// their names.
func (s *state) serving() map[string]config.Endpoint {
	made := make(map[string]config.Endpoint, len(s.Endpoints))
	for k, e := range s.Endpoints {
		var serves config.Endpoint
		if d := e.Current; d != nil {
			for _, v := range d.Variants {
				serves.Variants = append(serves.Variants, v.routed())
			}
			for _, v := range d.Shadows {
				serves.ShadowVariants = append(serves.ShadowVariants, v.shadowing(d.totalWeight()))
			}
			serves.InferenceComponents = s.servingComponents(k)
		}
		made[e.Name] = serves
	}
	return made
}

// routed is the variant as the router takes it.
func (v variant) routed() config.Variant {
	c := config.Variant{Name: v.Settings.VariantName, Pool: v.Settings.ModelName, Weight: v.Weight, Routing: config.Routing{Strategy: "RANDOM"}}
	if r := v.Settings.RoutingConfig; r != nil {
		c.Routing.Strategy = r.RoutingStrategy
		if p := r.PrefixAwareRoutingConfig; p != nil {
			c.Routing.PrefixLength, c.Routing.ConcurrencyThreshold = *p.PrefixLength, *p.ConcurrencyThreshold
		}
	}
	return c
}

// shadowing is the variant as the router takes a shadow. Its weight is relative to that of the variant it shadows, which is not 0.
func (v variant) shadowing(weight float64) config.ShadowVariant {
	c := v.routed()
	return config.ShadowVariant{Name: c.Name, Pool: c.Pool, Share: min(1, v.Weight/weight), Routing: c.Routing}
}

// validate finds what no operation could have made.
func (s *state) validate() error {
	if s.Version != stateVersion {
		return fmt.Errorf("its version is %d, and this Warmpath reads %d", s.Version, stateVersion)
	}
	if s.Configs == nil || s.Endpoints == nil || s.Components == nil {
		return errors.New("it has no endpoint_configs or no endpoints")
	}
	for k, c := range s.Configs {
		if key(c.Name) != k {
			return fmt.Errorf("endpoint configuration %q stands under %q", c.Name, k)
		}
		if err := check(&c.Settings); err != nil {
			return fmt.Errorf("endpoint configuration %q: %w", c.Name, err)
		}
	}
	for k, e := range s.Endpoints {
		if key(e.Name) != k {
			return fmt.Errorf("endpoint %q stands under %q", e.Name, k)
		}
		if err := e.validate(); err != nil {
			return fmt.Errorf("endpoint %q: %w", e.Name, err)
		}
	}
	return s.validateComponents()
}

func (e endpoint) validate() error {
	if !e.Status.fits(e.Current != nil, e.Next != nil) {
		return fmt.Errorf("status %q does not fit its deployments", e.Status)
	}
	for _, d := range []*deployment{e.Current, e.Next} {
		if d == nil {
			continue
		}
		if len(d.Variants) == 0 || d.totalWeight() <= 0 {
			return errors.New("a deployment has no variant that could take a request")
		}
		for _, v := range d.all() {
			if err := check(&v.Settings); err != nil {
				return fmt.Errorf("variant %q: %w", v.Settings.VariantName, err)
			}
			if v.Weight < 0 || v.Count < 0 {
				return fmt.Errorf("variant %q has a weight or a count below 0", v.Settings.VariantName)
			}
		}
	}
	return nil
}
