package main

import (
	"embed"
	"strconv"
)

const (
	productWarmpath = "Warmpath"
	productHAProxy  = "HAProxy"
	productNginx    = "nginx"
	productEnvoy    = "Envoy"
)

// Settings that several routers share. The window lies within the prefixes that requests share, and shows them all apart.
const (
	window      = 4096 // bytes or characters of a prompt's beginning that are hashed
	loadPercent = 150  // of the mean, the open requests at which a replica is passed over
	mostOpen    = clients * loadPercent / 100 / replicas
)

// router is a product with a setting. Where a product has several policies for this work, each is a router.
type router struct {
	product string
	setting string // what it does, for a table
	// config names the file that it is configured by, which is a template; empty = flags alone do.
	config string
	hash   bool // in the configuration, by the beginning of the body instead of by load
	args   func(launch) []string
}

func (r router) label() string { return r.product + ", " + r.setting }

// launch is what a process is started with.
type launch struct {
	Host, Port  string // it listens on
	Metrics     string // port of its own page of metrics
	Engines     []string
	Config      string // path
	Folder      string // for its files
	Hash        bool
	Window      int
	LoadPercent int
	MostOpen    int
}

// Address is where it listens, as HOST:PORT.
func (l launch) Address() string { return l.Host + ":" + l.Port }

//go:embed haproxy.cfg nginx.conf envoy.yaml
var configs embed.FS

// routers are in order of the table. All that can probe engines do so each second, and none leaves one that has failed alone for
// longer than that.
var routers = []router{
	{product: productWarmpath, setting: "KV_AWARE", args: warmpath("--strategy", "KV_AWARE")},
	{
		product: productWarmpath, setting: "PREFIX_AWARE",
		args: warmpath("--strategy", "PREFIX_AWARE", "--prefix-length", strconv.Itoa(window), "--concurrency-threshold", strconv.Itoa(mostOpen)),
	},
	{product: "sglang-router", setting: "cache_aware", args: launched("cache_aware", thresholds("10")...)},
	{
		product: "smg", setting: "cache_aware", // without what sends requests away from a warm replica for other reasons
		args: launched("cache_aware", append(thresholds("8"), "--disable-worker-overload-protection", "--worker-warmup-secs", "0",
			"--worker-warmup-divert-every", "0")...),
	},
	{
		product: "smg", setting: "prefix_hash",
		args: launched("prefix_hash", "--prefix-token-count", strconv.Itoa(window/4), "--prefix-hash-load-factor", "1.25",
			"--prefix-hash-balance-abs-threshold", "1"),
	},
	{product: "vllm-router", setting: "cache_aware", args: routerFlags("warning", "cache_aware", thresholds("10")...)},
	{product: productHAProxy, setting: "leastconn", config: "haproxy.cfg", args: haproxy},
	{product: productHAProxy, setting: "hash of the body's beginning", config: "haproxy.cfg", hash: true, args: haproxy},
	{product: productNginx, setting: "least_conn", config: "nginx.conf", args: nginx},
	{product: productNginx, setting: "hash of the body's beginning", config: "nginx.conf", hash: true, args: nginx},
	{product: productEnvoy, setting: "LEAST_REQUEST", config: "envoy.yaml", args: envoy},
	{product: productEnvoy, setting: "hash of the body's beginning", config: "envoy.yaml", hash: true, args: envoy},
}

// thresholds of cache_aware: the difference of open requests above which load decides, once it is a tenth of the lesser.
func thresholds(difference string) []string {
	return []string{"--cache-threshold", "0.5", "--balance-abs-threshold", difference, "--balance-rel-threshold", "1.1"}
}

func warmpath(policy ...string) func(launch) []string {
	return func(l launch) []string {
		args := append([]string{"serve", "--listen", l.Address(), "--admin-listen", l.Host + ":" + l.Metrics, "--engine", "vllm"}, policy...)
		for _, engine := range l.Engines {
			args = append(args, "--replica", engine)
		}
		return args
	}
}

// launched is for the two whose flags follow a command.
func launched(policy string, more ...string) func(launch) []string {
	flags := routerFlags("warn", policy, more...)
	return func(l launch) []string { return append([]string{"launch"}, flags(l)...) }
}

// routerFlags are those that the routers of the SGLang family share. They log every request unless told not to.
func routerFlags(logLevel, policy string, more ...string) func(launch) []string {
	return func(l launch) []string {
		args := []string{
			"--host", l.Host, "--port", l.Port, "--prometheus-host", l.Host, "--prometheus-port", l.Metrics, "--log-level", logLevel,
			"--worker-startup-check-interval", "1", "--health-check-interval-secs", "1", "--health-failure-threshold", "2",
			"--health-success-threshold", "1", "--cb-timeout-duration-secs", "1", "--policy", policy,
		}
		return append(append(append(args, more...), "--worker-urls"), l.Engines...)
	}
}

func haproxy(l launch) []string { return []string{"-db", "-f", l.Config} }

func nginx(l launch) []string {
	return []string{"-c", l.Config, "-p", l.Folder, "-e", l.Folder + "/error.log"}
}

func envoy(l launch) []string {
	return []string{"-c", l.Config, "--use-dynamic-base-id", "--log-level", "warning"}
}
