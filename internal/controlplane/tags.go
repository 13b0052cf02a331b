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
	tags, _, err := s.tagsOf(s.state.Load(), in.ResourceArn)
	out.Tags = append([]tag{}, tags...) // a list is never null
	return out, err
}

// retag changes the tags of a resource.
func (s *Server) retag(arn string, change func([]tag) ([]tag, error)) error {
	return s.update(func(next *state, _ instant) error {
		tags, put, err := s.tagsOf(next, arn)
		if err != nil {
			return err
		}
		if tags, err = change(tags); err == nil {
			put(tags)
		}
		return err
	})
}

// tagsOf gives the tags of the resource that arn names, and what puts others in their place, for which the state must be one that may be
// changed.
func (s *Server) tagsOf(in *state, arn string) (tags []tag, put func([]tag), err error) {
	kind, name, _ := strings.Cut(arn[strings.LastIndex(arn, ":")+1:], "/")
	k := key(name)
	if e, exists := in.Endpoints[k]; exists && arn == s.arn("endpoint", name) {
		return e.Tags, func(tags []tag) { e.Tags = tags; in.Endpoints[k] = e }, nil
	}
	if c, exists := in.Configs[k]; exists && arn == s.arn("endpoint-config", name) {
		return c.Tags, func(tags []tag) { c.Tags = tags; in.Configs[k] = c }, nil
	}
	if c, exists := in.Components[k]; exists && arn == s.arn("inference-component", name) {
		return c.Tags, func(tags []tag) { c.Tags = tags; in.Components[k] = c }, nil
	}
	return nil, nil, invalid("Could not find %s %q.", kind, arn)
}
