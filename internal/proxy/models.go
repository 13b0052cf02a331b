package proxy

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/fleet"
	"github.com/warmpath/warmpath/internal/telemetry"
)

const (
	listTimeout = 2 * time.Second        // for the first replica to say what it serves
	listGrace   = 250 * time.Millisecond // for the others after that, so that a slow one does not delay the list
	listLimit   = 1 << 20                // bytes of one replica's list
)

// model is one entry of GET /v1/models.
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// listModels answers GET /v1/models and /v1/models/{id}: the names that the configuration gives, and for endpoints that answer to
// any model those that their replicas give, as far as the caller may use them. Behind an endpoint's name it lists that one's, behind
// an inference component's those that its copies give.
func (x *exchange) listModels() *dialect.Error {
	if err := x.prove(); err != nil {
		return err
	}
	endpoints := x.Table.ByModel()
	if name := x.route.Endpoint; name != "" {
		e, _, err := x.Table.Named(name, "")
		if err != nil {
			return dialect.EndpointNotFound(name)
		}
		if err := x.permit(e); err != nil {
			return err
		}
		c, refusal := namedComponent(e, x.route.Component)
		switch {
		case refusal != nil:
			return refusal
		case c != nil:
			return x.listNames(servedBy(x.r.Context(), c))
		}
		endpoints = []*endpoint.Endpoint{e}
	}
	var names []string
	for _, e := range endpoints {
		if !x.caller.May(e.Name) {
			continue
		}
		names = slices.AppendSeq(append(names, e.Models...), maps.Keys(e.Aliases))
		if len(e.Models) == 0 {
			names = append(names, servedBy(x.r.Context(), e.Variants...)...)
		}
	}
	return x.listNames(names)
}

// listNames answers with models, or with the one among them that is asked for.
func (x *exchange) listNames(names []string) *dialect.Error {
	slices.Sort(names)
	names = slices.Compact(names)
	list := make([]model, len(names))
	for i, name := range names {
		list[i] = model{ID: name, Object: "model", OwnedBy: "warmpath"}
	}
	if x.route.Model == "" {
		return x.answer(map[string]any{"object": "list", "data": list})
	}
	i, found := slices.BinarySearch(names, x.route.Model)
	if !found {
		return &dialect.Error{Status: http.StatusNotFound, Code: "model_not_found",
			Message: "no endpoint serves this model; GET /v1/models lists those there are"}
	}
	return x.answer(list[i])
}

func (x *exchange) answer(v any) *dialect.Error {
	body, err := json.Marshal(v)
	if err != nil {
		return &dialect.Error{Status: http.StatusInternalServerError, Code: "internal", Message: "the model list could not be written", Cause: err}
	}
	h := x.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Request-Id", x.rec.ID)
	x.w.WriteHeader(http.StatusOK)
	n, _ := x.w.Write(body)
	x.rec.Status, x.rec.Outcome, x.rec.BytesOut = http.StatusOK, telemetry.OutcomeOK, int64(n)
	return nil
}

// servedBy asks the replicas of variants what they serve, all at once.
func servedBy(ctx context.Context, variants ...*endpoint.Variant) []string {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	answers := make(chan []string)
	asked := 0
	for _, v := range variants {
		for _, r := range v.Pool.Fleet.View().Eligible {
			asked++
			go func() {
				select {
				case answers <- modelsOf(ctx, v.Pool, r):
				case <-ctx.Done():
				}
			}()
		}
	}
	return gather(ctx, cancel, answers, asked)
}

// gather collects answers until all are in, or until the first useful one is listGrace old.
func gather(ctx context.Context, cancel context.CancelFunc, answers <-chan []string, asked int) (names []string) {
	for range asked {
		select {
		case served := <-answers:
			if len(names) == 0 && len(served) > 0 {
				defer time.AfterFunc(listGrace, cancel).Stop()
			}
			names = append(names, served...)
		case <-ctx.Done():
			return names
		}
	}
	return names
}

func modelsOf(ctx context.Context, p *endpoint.Pool, r *fleet.Replica) []string {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.URL().String(), "/")+"/v1/models", nil)
	if err != nil {
		return nil
	}
	if p.Authorization != "" {
		req.Header.Set("Authorization", p.Authorization)
	}
	resp, err := p.Transport.RoundTrip(req)
	if err != nil {
		return nil
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct {
		Data []model `json:"data"`
	}
	if resp.StatusCode != http.StatusOK || json.UnmarshalRead(http.MaxBytesReader(nil, resp.Body, listLimit), &list) != nil {
		return nil
	}
	names := make([]string, len(list.Data))
	for i, m := range list.Data {
		names[i] = m.ID
	}
	return names
}
