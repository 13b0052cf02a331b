package proxy

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"sync"

	"github.com/warmpath/warmpath/internal/dialect"
	"github.com/warmpath/warmpath/internal/endpoint"
	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/recording"
	"github.com/warmpath/warmpath/internal/routing"
)

// plan is what a request asks for and where it may go.
type plan struct {
	endpoint *endpoint.Endpoint
	variant  *endpoint.Variant
	model    string // as the engine knows it; empty if the request names none
	stream   bool
	query    routing.Query
	hint     string
	window   int    // bytes or characters that went into the key
	path     string // escaped, under which the engine serves the request; empty = the client's own

	body     []byte // what the engine gets
	decoded  bool   // body is no longer in the client's Content-Encoding
	injected bool   // body asks for a usage that the client does not expect
	batch    bool   // body holds several prompts

	session *membership // that the request belongs to; nil = none

	chain *[]uint64 // the memory of query.Chain, to go back to the pool; nil = none

	encode func(dst []byte) []byte // appends the prompt's beginning for a recording, while the client's body is there; nil = not recorded
}

// planFor reads a request and decides everything but the replica: for the client, or for a copy to a shadow. It changes nothing and is
// what explain shows. Beside an error there is a plan if the endpoint is known.
func (p *Proxy) planFor(s *Settings, route dialect.Route, r *http.Request, raw []byte, shadow *endpoint.Shadow) (*plan, *dialect.Error) {
	if err := route.Check(r.Header); err != nil {
		return nil, err
	}
	text, err := decode(r.Header, raw, s.Limits)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(route, r.Header, text)
	if err != nil {
		return nil, err
	}
	made := &plan{body: raw, stream: parsed.Stream, query: routing.Query{Random: p.Random(), Limit: 1, Streamed: parsed.Stream}}
	model, named := modelOf(&parsed, r, text)
	if err := made.resolve(s.Table, route.Endpoint, model, named); err != nil {
		return nil, err
	}
	if shadow != nil {
		made.endpoint = shadow.As
	}
	made.edit(&parsed, model)
	if err := made.choose(route, r.Header, p.draw()); err != nil {
		return made, err
	}
	if err := made.join(p.Sessions, route, r.Header); err != nil {
		return made, err
	}
	if made.path = route.EnginePath; route.Invocation != dialect.NoInvocation {
		made.path = made.endpoint.InvocationsPath
	}
	made.hint = cmp.Or(r.Header.Get(dialect.HeaderPrefixAwareID), parsed.CacheKey)
	window := route.Window
	if opens(route, r.Header) && !parsed.HasText() && made.hint == "" {
		window = dialect.NoWindow // the same bytes open every session, and would lead all of them to one replica
	}
	switch s := made.variant.Strategy.(type) {
	case routing.Keyed:
		made.key(window, &parsed, text, s.PrefixLength())
	case routing.Chained:
		made.link(window, &parsed, text)
	}
	if made.endpoint.Recorder != nil {
		made.encode = encoding(route.Window, parsed, text, made.hint)
	}
	return made, nil
}

// draw is uniform in [0, 1).
func (p *Proxy) draw() float64 { return float64(p.Random()>>11) / (1 << 53) }

// edit changes the body where an alias names another model, and where the endpoint wants to know the usage of a stream.
func (p *plan) edit(parsed *prompt.Body, asked string) {
	var edits []prompt.Edit
	if parsed.HasModel && p.model != asked {
		edits = append(edits, parsed.SetModel(p.model))
	}
	if p.endpoint.InjectUsage {
		if e, ok := parsed.AskUsage(); ok {
			edits, p.injected = append(edits, e), true
		}
	}
	if edits != nil {
		p.body, p.decoded = parsed.Splice(nil, edits...), true
	}
	p.batch = parsed.Batch()
}

// encoding gives what a recording hashes of a request: as much as the longest prefix window would.
func encoding(w dialect.Window, parsed prompt.Body, text []byte, hint string) func(dst []byte) []byte {
	return func(dst []byte) []byte {
		switch w {
		case dialect.TextWindow:
			return parsed.AppendText(dst, recording.MaxCharacters, hint)
		case dialect.ByteWindow:
			return prompt.AppendBytes(dst, text, recording.MaxCharacters, hint)
		}
		return dst
	}
}

// decode undoes a body's Content-Encoding for reading; the engine gets the body as the client sent it.
func decode(h http.Header, raw []byte, limits Limits) ([]byte, *dialect.Error) {
	coding := strings.Join(h.Values("Content-Encoding"), ",")
	if coding == "" {
		return raw, nil
	}
	text, err := prompt.Decode(nil, raw, coding, limits.DecodedBody)
	var unsupported *prompt.UnsupportedEncodingError
	switch {
	case err == nil:
		return text, nil
	case errors.As(err, &unsupported):
		return nil, &dialect.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_content_encoding", Cause: err,
			Message: "the request's Content-Encoding is not supported; send gzip, deflate, zstd or a plain body"}
	case errors.Is(err, prompt.ErrTooLarge):
		return nil, &dialect.Error{Status: http.StatusRequestEntityTooLarge, Code: "body_too_large", Cause: err,
			Message: fmt.Sprintf("the decoded request body is larger than the limit of %d bytes (data.max_decoded_body)", limits.DecodedBody)}
	}
	return nil, &dialect.Error{Status: http.StatusBadRequest, Code: "undecodable_body", Cause: err,
		Message: "the request body does not decode as its Content-Encoding says"}
}

// parse reads a JSON body. Where the API takes other bodies too, one that is not JSON is simply not read.
func parse(route dialect.Route, h http.Header, text []byte) (prompt.Body, *dialect.Error) {
	declared := h.Get("Content-Type")
	isJSON := declared == "" || jsonType(declared)
	if !route.JSON && (!isJSON || len(text) == 0) {
		return prompt.Body{}, nil
	}
	parsed, err := prompt.Scan(text, route.Shape)
	if err == nil || !route.JSON || !isJSON {
		return parsed, nil
	}
	return prompt.Body{}, &dialect.Error{Status: http.StatusBadRequest, Code: "invalid_json", Message: err.Error(), Cause: err}
}

func jsonType(declared string) bool {
	media, _, err := mime.ParseMediaType(declared)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// modelOf finds the model a request names: in its JSON, in a form's field (audio uploads), or in its query.
func modelOf(parsed *prompt.Body, r *http.Request, text []byte) (model string, named bool) {
	if parsed.HasModel {
		return parsed.Model, true
	}
	if media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && media == "multipart/form-data" {
		return formModel(multipart.NewReader(bytes.NewReader(text), params["boundary"]))
	}
	if q := r.URL.RawQuery; q != "" {
		model = r.URL.Query().Get("model")
	}
	return model, model != ""
}

// formModel reads the form field "model". A form that cannot be read names none.
func formModel(form *multipart.Reader) (string, bool) {
	for {
		part, err := form.NextPart()
		if err != nil {
			return "", false
		}
		if part.FormName() != "model" {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, 1<<10))
		return string(value), err == nil
	}
}

// resolve finds the endpoint: by its name, where the path gives one, or by the model.
func (p *plan) resolve(t *endpoint.Table, name, model string, named bool) *dialect.Error {
	e, engineModel, err := find(t, name, model, named)
	switch {
	case errors.Is(err, endpoint.ErrUnknownName):
		return dialect.EndpointNotFound(name)
	case errors.Is(err, endpoint.ErrModelRequired):
		return &dialect.Error{Status: http.StatusBadRequest, Code: "model_required", Cause: err,
			Message: "the request names no model; set \"model\" to one that GET /v1/models lists"}
	case err != nil:
		return &dialect.Error{Status: http.StatusNotFound, Code: "model_not_found", Cause: err,
			Message: "no endpoint serves the requested model; GET /v1/models lists those there are"}
	}
	p.endpoint, p.model = e, engineModel
	return nil
}

func find(t *endpoint.Table, name, model string, named bool) (*endpoint.Endpoint, string, error) {
	if name != "" {
		return t.Named(name, model)
	}
	return t.Resolve(model, named)
}

// choose takes the inference component or the variant that is asked for below an endpoint's name, or draws a variant by weight.
func (p *plan) choose(route dialect.Route, h http.Header, draw float64) (err *dialect.Error) {
	target := h.Get(dialect.HeaderTargetVariant)
	if p.variant, err = componentOf(p.endpoint, route, h); err != nil || p.variant != nil {
		return err
	}
	if route.Endpoint == "" || target == "" {
		p.variant = p.endpoint.Pick(draw)
		return nil
	}
	if p.variant = p.endpoint.Variant(target); p.variant == nil {
		return dialect.VariantNotFound(p.endpoint.Name, target)
	}
	return nil
}

// key computes what PREFIX_AWARE goes by. A body that cannot be keyed goes by load.
func (p *plan) key(w dialect.Window, parsed *prompt.Body, text []byte, prefixLength int) {
	switch w {
	case dialect.TextWindow:
		p.query.Key, p.window, p.query.HasKey = parsed.TextKey(prefixLength, p.hint)
	case dialect.ByteWindow:
		p.query.Key, p.window, p.query.HasKey = prompt.BytesKey(text, prefixLength, p.hint)
	}
}

var chains = sync.Pool{New: func() any { return new([]uint64) }}

// link computes what KV_AWARE goes by: the block chain of the whole prompt, under the model's name as the engine knows it.
func (p *plan) link(w dialect.Window, parsed *prompt.Body, text []byte) {
	p.chain = chains.Get().(*[]uint64)
	switch {
	case parsed.HasText():
		p.query.Chain = parsed.Chain(*p.chain, p.cachedAs())
	case w == dialect.ByteWindow:
		p.query.Chain = prompt.BytesChain(*p.chain, text)
	}
	if p.query.Chain.Blocks != nil {
		*p.chain = p.query.Chain.Blocks
	}
}

// cachedAs is the model by whose name the prompt's blocks are told from those of other models. SageMaker's clients name none: of an
// endpoint with a single model it is that one, so that their prompts are found again when they come with its name.
func (p *plan) cachedAs() string {
	if p.model == "" && len(p.endpoint.Models) == 1 {
		return p.endpoint.Models[0]
	}
	return p.model
}

// release gives the chain's memory back: no attempt reads it any more.
func (p *plan) release() {
	if p != nil && p.chain != nil {
		chains.Put(p.chain)
		p.chain, p.query.Chain = nil, prompt.Chain{}
	}
}
