package controlplane

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/config"
)

// component is an inference component: what it serves with, and what it is on its way to.
type component struct {
	Name          string         `json:"name"`
	Endpoint      string         `json:"endpoint"`
	Variant       string         `json:"variant"`
	Created       instant        `json:"created"`
	Modified      instant        `json:"modified"`
	Status        status         `json:"status"`
	FailureReason string         `json:"failure_reason,omitzero"`
	Tags          []tag          `json:"tags,omitzero"`
	Current       *componentPlan `json:"current,omitzero"`
	Next          *componentPlan `json:"next,omitzero"`
}

// componentPlan is what an inference component is made of.
type componentPlan struct {
	Started       instant                `json:"started"`
	Copies        int                    `json:"desired_copy_count"`
	Specification componentSpecification `json:"specification"`
}

// busy says that a component is on its way to another status, in which nothing else about it is changed.
func (c component) busy() bool {
	return c.Status == creating || c.Status == updating || c.Status == deleting
}

func (c component) stands() standing {
	return standing{name: c.Name, status: c.Status, reason: c.FailureReason, underway: c.Next != nil}
}

// advanced is the component as it is now that pools have changed and time has passed: itself where it must still wait, nil where it is
// no more. One that wants no copies waits for none.
func (c component) advanced(pool func(string) (ready int, exists bool), now instant) *component {
	switch {
	case c.Status == deleting:
		return nil
	case c.Next == nil:
		return &c
	}
	name, timeout := c.Next.Specification.ModelName, c.Next.timeout()
	ready, exists := pool(name)
	switch {
	case ready > 0, c.Next.Copies == 0:
		c.Status, c.Modified, c.FailureReason, c.Current, c.Next = inService, now, "", c.Next, nil
	case now.Sub(c.Next.Started.Time) >= timeout:
		return c.givenUp(fmt.Sprintf("The container of inference component %s did not pass the ping health check: %s within %.0f seconds.",
			c.Name, lack(name, exists), timeout.Seconds()), now)
	}
	return &c
}

// givenUp is the component after its transition has failed: with what it served before, or of no use.
func (c component) givenUp(reason string, now instant) *component {
	c.Status, c.Modified, c.FailureReason, c.Next = failed, now, reason, nil
	if c.Current != nil {
		c.Status = inService
		c.FailureReason += " The update was given up; what was there before stays in service."
	}
	return &c
}

// timeout is how long the plan may wait for its replicas.
func (p *componentPlan) timeout() time.Duration {
	if s := p.Specification.StartupParameters; s != nil && s.HealthCheckTimeout != nil {
		return time.Duration(*s.HealthCheckTimeout) * time.Second
	}
	return startupTimeout
}

// componentsOf lists the components of the endpoint under a key, by name.
func (s *state) componentsOf(endpoint string) (of []component) {
	for _, k := range slices.Sorted(maps.Keys(s.Components)) {
		if c := s.Components[k]; key(c.Endpoint) == endpoint {
			of = append(of, c)
		}
	}
	return of
}

// servingComponents gives the components that the endpoint under a key serves with.
func (s *state) servingComponents(endpoint string) (serving []config.InferenceComponent) {
	for _, c := range s.componentsOf(endpoint) {
		if p := c.Current; p != nil {
			serving = append(serving, config.InferenceComponent{
				Name: c.Name, Pool: p.Specification.ModelName, Variant: c.Variant, NoCopies: p.Copies == 0,
			})
		}
	}
	return serving
}

// hosts says whether inference components can be deployed to the variant of that name.
func (d *deployment) hosts(variantName string) bool {
	return slices.ContainsFunc(d.Variants, func(v variant) bool {
		return v.Settings.VariantName == variantName && v.Settings.ModelName == ""
	})
}

// keepsComponents refuses a deployment that would leave a component of the endpoint under a key without its variant.
func (s *state) keepsComponents(endpoint string, d *deployment) error {
	for _, c := range s.componentsOf(endpoint) {
		if !d.hosts(c.Variant) {
			return invalid("Endpoint configuration %s has no production variant %s without ModelName, to which inference component %s is deployed. Delete the inference component first.",
				d.ConfigName, c.Variant, c.Name)
		}
	}
	return nil
}

// validateComponents finds what no operation could have made.
func (s *state) validateComponents() error {
	for k, c := range s.Components {
		if key(c.Name) != k {
			return fmt.Errorf("inference component %q stands under %q", c.Name, k)
		}
		e, exists := s.Endpoints[key(c.Endpoint)]
		if !exists {
			return fmt.Errorf("inference component %q: there is no endpoint %q", c.Name, c.Endpoint)
		}
		for _, d := range []*deployment{e.Current, e.Next} {
			if d != nil && !d.hosts(c.Variant) {
				return fmt.Errorf("inference component %q: endpoint %q has no variant %q for it", c.Name, c.Endpoint, c.Variant)
			}
		}
		if err := c.validate(); err != nil {
			return fmt.Errorf("inference component %q: %w", c.Name, err)
		}
	}
	return nil
}

func (c component) validate() error {
	if !c.Status.fits(c.Current != nil, c.Next != nil) {
		return fmt.Errorf("status %q does not fit its plans", c.Status)
	}
	for _, p := range []*componentPlan{c.Current, c.Next} {
		switch {
		case p == nil:
		case p.Copies < 0 || p.Specification.ModelName == "":
			return errors.New("it has no pool, or less than 0 copies")
		default:
			if err := check(&p.Specification); err != nil {
				return err
			}
		}
	}
	return nil
}
