// Package config reads, validates and documents Warmpath's configuration, and says all that is wrong with it at once.
package config

// This file is data as much as code: defaults, ranges and choices stand in the field tags, and the comments become the
// key descriptions of the JSON Schema and of docs/reference/configuration.md. After a change run `go generate ./internal/config`.

// Config is one whole configuration file.
type Config struct {
	// Data is the listener that clients call.
	Data Data `yaml:"data"`
	// Admin is the listener for operators.
	Admin Admin `yaml:"admin"`
	// Pools are the places where replicas live, by pool name. At least one.
	Pools map[string]Pool `yaml:"pools" required:"true"`
	// Endpoints are the named services that clients call, by endpoint name. At least one, unless there is a `control_plane` to
	// make them.
	Endpoints map[string]Endpoint `yaml:"endpoints"`
	// ControlPlane is the listener of SageMaker's endpoint configuration API. Without it there is none.
	ControlPlane *ControlPlane `yaml:"control_plane"`
	// Auth is who may call. Without it nobody is asked for credentials.
	Auth *Auth `yaml:"auth"`

	// Warnings are findings that do not prevent the configuration from being used.
	Warnings Errors `yaml:"-"`
}

// Data is the listener that clients call: its address, limits and shutdown.
type Data struct {
	// Listen is the address that clients connect to, HOST:PORT. An empty host means every interface.
	Listen string `yaml:"listen" default:"127.0.0.1:8080"`
	// MaxBody is the largest request body accepted, as sent. A larger one is answered with 413.
	MaxBody Bytes `yaml:"max_body" default:"64MiB" min:"1KiB"`
	// MaxDecodedBody is the most that a compressed request body may decode to. Not less than `max_body`.
	MaxDecodedBody Bytes `yaml:"max_decoded_body" default:"256MiB" min:"1KiB"`
	// MaxHeader is the largest request header block accepted.
	MaxHeader Bytes `yaml:"max_header" default:"64KiB" min:"4KiB" max:"16MiB"`
	// MaxConnections is the most client connections open at once. 0 means no limit.
	MaxConnections int `yaml:"max_connections" default:"0" min:"0"`
	// HeaderTimeout is the time a client has to send its request headers.
	HeaderTimeout Duration `yaml:"header_timeout" default:"10s" min:"100ms"`
	// BodyTimeout is the longest pause, without a byte, while a client sends its request body.
	BodyTimeout Duration `yaml:"body_timeout" default:"30s" min:"100ms"`
	// IdleTimeout is how long a client's unused connection is kept open.
	IdleTimeout Duration `yaml:"idle_timeout" default:"90s" min:"1s"`
	// DecisionHeaders adds `X-Warmpath-Replica` and `X-Warmpath-Decision` to answers.
	DecisionHeaders bool `yaml:"decision_headers" default:"true"`
	// TrustForwarded keeps the `X-Forwarded-*` headers that clients send and adds to them; otherwise they are replaced.
	// Turn it on only behind a proxy that sets them.
	TrustForwarded bool `yaml:"trust_forwarded" default:"false"`
	// Drain is what happens between SIGTERM and the end of the process.
	Drain Drain `yaml:"drain"`
}

// Drain is the graceful shutdown that SIGTERM starts.
type Drain struct {
	// Delay is how long Warmpath reports itself not ready and still accepts requests, so that whatever stands in front
	// notices first.
	Delay Duration `yaml:"delay" default:"5s" min:"0s"`
	// Limit is the time that open requests then have to finish.
	Limit Duration `yaml:"limit" default:"10m" min:"0s"`
}

// Admin is the listener for operators: metrics, health, explain and dashboard. It asks for no credentials; keep it off
// public networks.
type Admin struct {
	// Listen is the address of the admin listener, HOST:PORT.
	Listen string `yaml:"listen" default:"127.0.0.1:8081"`
}

// ControlPlane is SageMaker's endpoint configuration API, by which AWS clients make endpoints of the pools of this file. See
// docs/control-plane.md.
type ControlPlane struct {
	// Listen is the address of the control plane, HOST:PORT.
	Listen string `yaml:"listen" default:"127.0.0.1:8082"`
	// StateFile is the path of the file that keeps what was made by API. A relative path starts at the directory of the
	// configuration file. Only one process may use it.
	StateFile string `yaml:"state_file" default:"warmpath-state.json"`
	// Region is the AWS region that stands in ARNs.
	Region string `yaml:"region" default:"us-east-1"`
	// Account is the account id that stands in ARNs, 12 digits.
	Account string `yaml:"account" default:"000000000000"`
	// Endpoints are the settings of endpoints made by API for which the API has no words.
	Endpoints MadeEndpoints `yaml:"endpoints"`
}

// MadeEndpoints are settings of every endpoint that is made by API, as those of one in `endpoints`.
type MadeEndpoints struct {
	// InvocationsPath is where the engines take what clients send to `/endpoints/NAME/invocations`.
	InvocationsPath string `yaml:"invocations_path" default:"/invocations"`
	// Usage `inject` makes streams report their tokens to Warmpath where clients do not ask for it.
	Usage string `yaml:"usage" default:"pass" enum:"pass|inject"`
	// SessionTTL is how long a session stays with its replica, if the engine that opened it does not say.
	SessionTTL Duration `yaml:"session_ttl" default:"20m" min:"1s"`
	// Timeouts are the limits of how long an engine's answer may take.
	Timeouts Timeouts `yaml:"timeouts"`
	// Retry is how often a request whose answer has not begun is tried on another replica.
	Retry Retry `yaml:"retry"`
}

// Auth is who may call. Every request on the data listener and on the control plane then needs the credentials of one of these keys;
// the admin listener asks for none. See docs/auth.md.
type Auth struct {
	// Keys are API keys, sent as `Authorization: Bearer` or `X-Api-Key`.
	Keys []APIKey `yaml:"keys"`
	// AccessKeys are AWS-style pairs, by which AWS SDKs sign requests (Signature Version 4) and make bearer tokens.
	AccessKeys []AccessKey `yaml:"access_keys"`
	// Region is the AWS region that signatures must be made for. Without it, any is accepted.
	Region string `yaml:"region"`
	// ClockSkew is how far the time of a signature may be from Warmpath's clock, either way. A signed request that somebody overhears
	// can be sent again for as long.
	ClockSkew Duration `yaml:"clock_skew" default:"15m" min:"1s" max:"1h"`
}

// APIKey is a key that is sent as it is.
type APIKey struct {
	// Name stands for the key in metrics and logs.
	Name string `yaml:"name" required:"true"`
	// Key is the key itself. It never reaches logs or engines.
	Key Secret `yaml:"key"`
	// KeyFile is the path of a file that holds `key`. A relative path starts at the directory of the configuration file. It is read
	// again at each reload. Not together with `key`.
	KeyFile string `yaml:"key_file"`
	// Endpoints are the endpoints that the key may use. Without it, all.
	Endpoints []string `yaml:"endpoints"`
}

// AccessKey is a pair of which the id is sent and the secret signs.
type AccessKey struct {
	// Name stands for the key in metrics and logs.
	Name string `yaml:"name" required:"true"`
	// ID is the access key id, `AWS_ACCESS_KEY_ID` of clients.
	ID string `yaml:"id" required:"true"`
	// Secret is the secret access key, `AWS_SECRET_ACCESS_KEY` of clients. It never reaches logs or engines.
	Secret Secret `yaml:"secret"`
	// SecretFile is the path of a file that holds `secret`. A relative path starts at the directory of the configuration file. It is
	// read again at each reload. Not together with `secret`.
	SecretFile string `yaml:"secret_file"`
	// Endpoints are the endpoints that the key may use. Without it, all.
	Endpoints []string `yaml:"endpoints"`
	// ControlPlane lets the key use the control plane, where endpoints are made and deleted.
	ControlPlane bool `yaml:"control_plane" default:"false"`
}

// Pool is a set of replicas that run the same model on the same kind of engine. It has exactly one source of replicas:
// `static`, `file` or `dns`.
type Pool struct {
	// Engine is the inference engine that the replicas run. It decides the health path, the metric names and where an
	// answer reports cached tokens.
	Engine string `yaml:"engine" default:"generic" enum:"vllm|sglang|tensorrtllm|llamacpp|generic"`
	// Static lists the base URLs of the replicas, for example `http://10.0.0.1:8000`.
	Static []string `yaml:"static"`
	// File is the path of a YAML or JSON file that lists the replicas and is watched for changes. A relative path starts
	// at the directory of the configuration file.
	File string `yaml:"file"`
	// DNS finds the replicas by a DNS name that is resolved again and again.
	DNS *DNS `yaml:"dns"`
	// Health is the active probe of each replica.
	Health Health `yaml:"health"`
	// Metrics is the reading of each replica's metrics page.
	Metrics Metrics `yaml:"metrics"`
	// Ejection takes a replica out of rotation because of what its answers show.
	Ejection Ejection `yaml:"ejection"`
	// SlowStart is the window over which a new or returning replica takes a growing share of cold work. 0s means none.
	SlowStart Duration `yaml:"slow_start" default:"10s" min:"0s"`
	// ConnectTimeout is the time to establish a connection to a replica.
	ConnectTimeout Duration `yaml:"connect_timeout" default:"1s" min:"10ms" max:"1m"`
	// CancelOnDisconnect says whether a client that leaves ends its request at the engine. Turn it off for an engine that a
	// broken connection upsets: the answer is then read to its end, within the endpoint's timeouts, and thrown away.
	CancelOnDisconnect bool `yaml:"cancel_on_disconnect" default:"true"`
	// APIKey is the bearer token sent to the engines. It never reaches clients or logs.
	APIKey Secret `yaml:"api_key"`
	// APIKeyFile is the path of a file that holds `api_key`. A relative path starts at the directory of the configuration
	// file. It is read again at each reload. Not together with `api_key`.
	APIKeyFile string `yaml:"api_key_file"`
}

// DNS finds replicas by name. See docs/sources/dns.md.
type DNS struct {
	// Name is the DNS name to resolve.
	Name string `yaml:"name" required:"true"`
	// Port is the port of every replica. Required for address records; SRV records bring their own.
	Port int `yaml:"port" min:"1" max:"65535"`
	// Type is the record type to ask for. Without it, A and AAAA are both asked for.
	Type string `yaml:"type" enum:"A|AAAA|SRV"`
	// Scheme is the URL scheme of every replica.
	Scheme string `yaml:"scheme" default:"http" enum:"http|https"`
	// Interval is the longest time between look-ups; a shorter TTL shortens it.
	Interval Duration `yaml:"interval" default:"30s" min:"1s" max:"1h"`
}

// Health is the active probe: a GET that each replica must answer with a 2xx status.
type Health struct {
	// Enabled turns the probe on. Without it a replica counts as ready until its answers show otherwise.
	Enabled bool `yaml:"enabled" default:"true"`
	// Path is the path to probe. Without it, the engine's own health path is used.
	Path string `yaml:"path"`
	// Interval is the time between two probes of one replica.
	Interval Duration `yaml:"interval" default:"1s" min:"100ms" max:"1h"`
	// Timeout is the time that a probe may take.
	Timeout Duration `yaml:"timeout" default:"1s" min:"10ms" max:"1m"`
	// UnhealthyAfter is the number of failed probes in a row after which a replica is taken out of rotation.
	UnhealthyAfter int `yaml:"unhealthy_after" default:"3" min:"1" max:"100"`
	// HealthyAfter is the number of good probes in a row after which a replica is put into rotation.
	HealthyAfter int `yaml:"healthy_after" default:"1" min:"1" max:"100"`
}

// Metrics is the reading of what engines say of themselves: their load, which is only shown, and the size of their caches. It also
// takes engines that say they sleep out of rotation. See docs/engines.md.
type Metrics struct {
	// Enabled turns the reading on.
	Enabled bool `yaml:"enabled" default:"true"`
	// Path is the path of the metrics page, in the Prometheus text format. Without it, the engine's own is used; `generic` has
	// none and is not read.
	Path string `yaml:"path"`
	// Interval is the time between two readings of one replica.
	Interval Duration `yaml:"interval" default:"5s" min:"100ms" max:"1h"`
	// Timeout is the time that a reading may take. Readings of one replica never overlap.
	Timeout Duration `yaml:"timeout" default:"2s" min:"10ms" max:"1m"`
}

// Ejection is the passive health check. A failed connection ejects at once, 5xx answers after several in a row; 4xx
// answers never count.
type Ejection struct {
	// ConsecutiveErrors is the number of 5xx answers in a row that ejects a replica.
	ConsecutiveErrors int `yaml:"consecutive_errors" default:"5" min:"1" max:"1000"`
	// BaseTime is the length of the first ejection. Each further one lasts twice as long as the one before.
	BaseTime Duration `yaml:"base_time" default:"1s" min:"10ms"`
	// MaxTime is the longest ejection. Not less than `base_time`.
	MaxTime Duration `yaml:"max_time" default:"30s" min:"10ms"`
}

// Endpoint is a named service: the models it answers to and the variants that serve them.
type Endpoint struct {
	// Models are the values of a request's `model` that this endpoint answers to. A single endpoint may leave them out
	// and answers to any model. An empty list, written out, means that no model leads here: clients name the endpoint in the path,
	// `/endpoints/NAME/`.
	Models []string `yaml:"models"`
	// Aliases are further names for models: a request for the name on the left reaches the engine as the one on the right.
	Aliases map[string]string `yaml:"aliases"`
	// StrictModels answers 404 to an unknown model even where there is only one endpoint; otherwise a single endpoint
	// passes any model name to the engine.
	StrictModels bool `yaml:"strict_models" default:"false"`
	// InvocationsPath is where the engines take what clients send to `/endpoints/NAME/invocations`. Write `/v1/chat/completions` for
	// an engine without `/invocations`. See docs/sagemaker.md.
	InvocationsPath string `yaml:"invocations_path" default:"/invocations"`
	// Usage `inject` makes streams of `/v1/chat/completions` and `/v1/completions`, and invocations that are one of these, report
	// their tokens to Warmpath where clients do not ask for it: `stream_options.include_usage` is added to the request, and what that adds to the answer is taken out again.
	// See docs/http.md.
	Usage string `yaml:"usage" default:"pass" enum:"pass|inject"`
	// SessionTTL is how long a session of SageMaker's runtime API stays with its replica, if the engine that opened it does not say.
	// See docs/sagemaker.md.
	SessionTTL Duration `yaml:"session_ttl" default:"20m" min:"1s"`
	// Timeouts are the limits of how long an engine's answer may take.
	Timeouts Timeouts `yaml:"timeouts"`
	// Retry is how often a request whose answer has not begun is tried on another replica.
	Retry Retry `yaml:"retry"`
	// Record writes down when requests come and how their prompts overlap, but no text, for `warmpath tune`. See docs/recording.md.
	Record *Record `yaml:"record"`
	// Variants are the weighted parts of the endpoint. At least one.
	Variants []Variant `yaml:"variants" required:"true"`
	// InferenceComponents are the pools of variants that have none of their own. Clients name the endpoint and the component, never a
	// model. See docs/sagemaker.md.
	InferenceComponents []InferenceComponent `yaml:"inference_components"`
	// ShadowVariants get copies of the endpoint's requests, whose answers are thrown away. Not with `inference_components`. See
	// docs/shadow.md.
	ShadowVariants []ShadowVariant `yaml:"shadow_variants"`

	// ByAPI says that the endpoint was made by the control plane. Clients reach it by its name, never by a model.
	ByAPI bool `yaml:"-"`
}

// Timeouts are limits of an engine's answer. 0s means no limit.
type Timeouts struct {
	// FirstByte is the time from sending a request to the first byte of its answer.
	FirstByte Duration `yaml:"first_byte" default:"0s" min:"0s"`
	// Idle is the longest pause between two bytes of an answer.
	Idle Duration `yaml:"idle" default:"10m" min:"0s"`
	// Total is the time from the arrival of a request to the end of its answer.
	Total Duration `yaml:"total" default:"0s" min:"0s"`
}

// Retry bounds the attempts of one request and the retries of all.
type Retry struct {
	// MaxAttempts is the most replicas that one request is sent to. 1 means no retry.
	MaxAttempts int `yaml:"max_attempts" default:"3" min:"1" max:"10"`
	// Budget is the largest share of recent requests that may be retries, 0 to 1.
	Budget float64 `yaml:"budget" default:"0.2" min:"0" max:"1"`
}

// Record is a file that `warmpath tune` and `warmpath simulate` read: of each request its time, sizes, token counts and one-way
// hashes of its prompt's beginning.
type Record struct {
	// File is the path of the recording. A relative path starts at the directory of the configuration file. A file that is
	// there already becomes FILE.1.
	File string `yaml:"file" required:"true"`
	// Sample is the share of the requests that is recorded, 0 to 1.
	Sample float64 `yaml:"sample" default:"1" min:"0" max:"1"`
	// MaxSize is the size at which a file is full: it becomes FILE.1, and a new one begins.
	MaxSize Bytes `yaml:"max_size" default:"64MiB" min:"64KiB" max:"1TiB"`
	// Keep is the number of full files that stay. The oldest goes first.
	Keep int `yaml:"keep" default:"4" min:"0" max:"1000"`
}

// Variant is a weighted part of an endpoint: a pool and how to route in it.
type Variant struct {
	// Name identifies the variant in metrics and headers. Without it, the name of its pool is used.
	Name string `yaml:"name"`
	// Pool is the name of the pool whose replicas serve the variant. Left out where the endpoint has `inference_components`.
	Pool string `yaml:"pool"`
	// Weight is the variant's share of the endpoint's requests, relative to the sum of all weights. 0 means no requests.
	Weight float64 `yaml:"weight" default:"1" min:"0"`
	// Routing is how a replica of the pool is chosen.
	Routing Routing `yaml:"routing"`

	// Component is the inference component that this is, of the variant of this name; empty = the variant itself. See Endpoint.Serving.
	Component string `yaml:"-"`
	// NoCopies says that no replica of the pool is to be used.
	NoCopies bool `yaml:"-"`
}

// InferenceComponent is a named group of replicas, each of them a copy of it. Several copies may share a host.
type InferenceComponent struct {
	// Name is what clients name, in a header or in the path: letters, digits and inner hyphens, 63 characters at most.
	Name string `yaml:"name" required:"true"`
	// Pool is the name of the pool whose replicas are the copies.
	Pool string `yaml:"pool" required:"true"`
	// Variant is the name of the variant that the component belongs to, by whose `routing` a copy is chosen. May be left out where
	// there is one variant.
	Variant string `yaml:"variant"`

	// NoCopies says that the API wants no copy of it, so that it takes no requests.
	NoCopies bool `yaml:"-"`
}

// ShadowVariant is a pool to be tried with the endpoint's requests. Clients get nothing of it: neither its answers nor its failures.
type ShadowVariant struct {
	// Name identifies the variant in metrics, beside the endpoint's other variants. Without it, the name of its pool is used.
	Name string `yaml:"name"`
	// Pool is the name of the pool whose replicas get the copies. None of the endpoint's `variants` may use it: the copies would
	// slow the requests of clients.
	Pool string `yaml:"pool" required:"true"`
	// Share is the share of the endpoint's requests that is copied, 0 to 1.
	Share float64 `yaml:"share" default:"1" min:"0" max:"1"`
	// Routing is how a replica of the pool is chosen.
	Routing Routing `yaml:"routing"`
}

// Routing is a strategy and its knobs. See docs/strategies.
type Routing struct {
	// Strategy is the rule that chooses a replica.
	Strategy string `yaml:"strategy" default:"KV_AWARE" enum:"KV_AWARE|PREFIX_AWARE|LEAST_OUTSTANDING_REQUESTS|RANDOM"`
	// PrefixLength is the length of the prefix window that `PREFIX_AWARE` hashes: bytes of the body on native routes,
	// characters of message text on OpenAI-style routes. Required with `PREFIX_AWARE`, refused with other strategies.
	PrefixLength int `yaml:"prefix_length" min:"1024" max:"65536"`
	// ConcurrencyThreshold is the number of in-flight requests at which a preferred replica is passed over for that
	// request. Required with `PREFIX_AWARE`, refused with other strategies.
	ConcurrencyThreshold int `yaml:"concurrency_threshold" min:"1" max:"1024"`
}
