package controlplane

import (
	"slices"
	"strings"
)

// maxTags is how many tags a resource may have.
const maxTags = 50

type addTagsInput struct {
	resource
	Tags []tag `json:"Tags" check:"required,length=..50"`
}

// resource names an endpoint, an endpoint configuration or an inference component.
type resource struct {
	ResourceArn string `json:"ResourceArn" check:"required,length=..256,match=arn"`
}

type tagsOutput struct {
	Tags []tag `json:"Tags"`
}

type deleteTagsInput struct {
	resource
	TagKeys []string `json:"TagKeys" check:"required,length=1..50"`
}

func (s *Server) addTags(in *addTagsInput) (out tagsOutput, err error) {
	err = s.retag(in.ResourceArn, func(tags []tag) ([]tag, error) {
		out.Tags = merged(tags, in.Tags)
		if len(out.Tags) > maxTags {
			return nil, limitExceeded("Number of tags", maxTags)
		}
		return out.Tags, nil
	})
	return out, err
}

func (s *Server) deleteTags(in *deleteTagsInput) (nothing, error) {
	return nothing{}, s.retag(in.ResourceArn, func(tags []tag) ([]tag, error) {
		return slices.DeleteFunc(slices.Clone(tags), func(t tag) bool { return slices.Contains(in.TagKeys, t.Key) }), nil
	})
}

// listTags gives all tags of a resource in one page.
func (s *Server) listTags(in *resource) (out tagsOutput, err error) {
	_, err = s.tagged(s.state.Load(), in.ResourceArn, func(tags []tag) ([]tag, error) {
		out.Tags = append([]tag{}, tags...)
		return tags, nil
	})
	return out, err
}

// retag changes the tags of a resource.
func (s *Server) retag(arn string, change func([]tag) ([]tag, error)) error {
	return s.update(func(next *state, _ instant) error {
		changed, err := s.tagged(next, arn, change)
		if err == nil {
			*next = *changed
		}
		return err
	})
}

// tagged is a state in which change has been applied to the tags of the resource that arn names.
func (s *Server) tagged(in *state, arn string, change func([]tag) ([]tag, error)) (*state, error) {
	kind, name, _ := strings.Cut(arn[strings.LastIndex(arn, ":")+1:], "/")
	next, err := in.clone(), error(nil)
	switch {
	case arn == s.arn("endpoint", name):
		e, exists := next.Endpoints[key(name)]
		if exists {
			e.Tags, err = change(e.Tags)
			next.Endpoints[key(name)] = e
			return next, err
		}
	case arn == s.arn("endpoint-config", name):
		c, exists := next.Configs[key(name)]
		if exists {
			c.Tags, err = change(c.Tags)
			next.Configs[key(name)] = c
			return next, err
		}
	case arn == s.arn("inference-component", name):
		c, exists := next.Components[key(name)]
		if exists {
			c.Tags, err = change(c.Tags)
			next.Components[key(name)] = c
			return next, err
		}
	}
	return nil, invalid("Could not find %s %q.", kind, arn)
}
