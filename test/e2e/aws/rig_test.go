package aws

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/warmpath/warmpath/test/e2e/aws/clients"
)

// languages name the clients; each has pools and endpoints whose names begin with its own.
var languages = []string{"go", "python", "node"}

// Credentials that the closed router knows.
const (
	region       = "us-east-1"
	leadID       = "AKIALEAD"
	leadSecret   = "lead-secret-0123456789"
	guestID      = "AKIAGUEST" // may use the endpoints that are named after the languages, and no control plane
	guestSecret  = "guest-secret-0123456789"
	apiKey       = "team-key-0123456789"
	maxBody      = 1 << 20
	emptyPayload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
)

// rig is everything that the clients speak to.
type rig struct {
	binary string
	ledger *ledger

	open, closed *router // without and with authentication
	victims      map[string]*process
	engines      map[string]string // the emulated engine of each language
	clients      clients.Installed
	hand         string // where other processes reach the ledger
}

func startRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{binary: buildBinary(t), ledger: newLedger(), victims: map[string]*process{}, engines: map[string]string{}}
	r.clients = installClients(t)
	_, engines := startEngines(t, r.binary, 4+4+3+len(languages), "--preset", "8b", "--sessions", "--model", "emulated,emulated-"+strings.Join(languages, ",emulated-"))
	pools := poolText("prefix", engines[:4]...) + poolText("sessions", engines[4:7]...) +
		poolText("copies", engines[7], engines[8], otherHost(engines[9]), otherHost(engines[10])) + poolText("down", nobody) + emptyPool(t)
	for i, language := range languages {
		r.engines[language] = engines[11+i]
		victim, at := startEngines(t, r.binary, 1, "--preset", "8b", "--sessions")
		r.victims[language] = victim
		pools += containerPool(language+"-a", startContainer(t, language+"-a", r.ledger)) +
			containerPool(language+"-b", startContainer(t, language+"-b", r.ledger)) +
			poolText(language+"-llm", r.engines[language]) + poolText(language+"-victim", at...)
	}
	r.open = startRouter(t, r.binary, r.configuration(t, pools))
	r.closed = startRouter(t, r.binary, r.configuration(t, pools)+authText)
	r.hand = r.ledger.serve(t, r.victims)
	return r
}

// setFault puts a fault of the emulator in force.
func setFault(t *testing.T, engine, script string) {
	t.Helper()
	resp, err := http.Post(engine+"/emulator/faults", "application/json", strings.NewReader(strconv.Quote(script)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusMultipleChoices {
		t.Fatalf("fault %s: %s", script, resp.Status)
	}
}

func poolText(name string, urls ...string) string {
	return fmt.Sprintf("  %s: {engine: vllm, static: [%s]}\n", name, strings.Join(urls, ", "))
}

// otherHost is the same engine by another name, which makes it a replica on another host.
func otherHost(url string) string { return strings.Replace(url, "127.0.0.1", "localhost", 1) }

func containerPool(name string, c *container) string {
	return fmt.Sprintf("  %s: {static: [%s], health: {path: /ping}}\n", name, c.URL)
}

// emptyPool is a pool whose file lists no replica.
func emptyPool(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "replicas.yaml")
	if err := os.WriteFile(path, []byte("[]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("  empty: {file: %s}\n", path)
}

var authText = fmt.Sprintf(`
auth:
  keys:
    - {name: team, key: %s}
  access_keys:
    - {name: lead, id: %s, secret: %s, control_plane: true}
    - {name: guest, id: %s, secret: %s, endpoints: [%s]}
`, apiKey, leadID, leadSecret, guestID, guestSecret, strings.Join(languages, ", "))

// configuration has, for each language, an endpoint of two containers, one of an emulated engine, one whose engine is to be killed,
// one of inference components, and one that waits for nobody; and for all one whose replica is down, one that has none, and one
// whose replicas keep sessions.
func (r *rig) configuration(t *testing.T, pools string) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "data: {max_body: %d, drain: {delay: 0s, limit: 5s}}\n", maxBody)
	fmt.Fprintf(&b, "control_plane: {listen: '127.0.0.1:0', state_file: %s}\n", filepath.Join(t.TempDir(), "state.json"))
	fmt.Fprintf(&b, "pools:\n%sendpoints:\n", pools)
	b.WriteString("  down: {models: [down], variants: [{pool: down}]}\n  empty: {models: [empty], variants: [{pool: empty}]}\n")
	b.WriteString("  sessions: {models: [sessions], variants: [{pool: sessions, routing: {strategy: RANDOM}}]}\n")
	for _, language := range languages {
		fmt.Fprintf(&b, `  %[1]s: {models: [%[1]s], variants: [{name: a, pool: %[1]s-a}, {name: b, pool: %[1]s-b, weight: 0}]}
  %[1]s-llm: {models: [emulated-%[1]s], aliases: {%[1]s-alias: emulated-%[1]s}, variants: [{pool: %[1]s-llm}]}
  %[1]s-victim: {models: [%[1]s-victim], variants: [{pool: %[1]s-victim}]}
  %[1]s-shared:
    variants: [{name: main}]
    inference_components: [{name: %[1]s-a, pool: %[1]s-a}, {name: %[1]s-b, pool: %[1]s-b}, {name: %[1]s-llm, pool: %[1]s-llm}]
  %[1]s-hasty: {models: [%[1]s-hasty], variants: [{pool: %[1]s-a}], timeouts: {idle: 2s}}
`, language)
	}
	return b.String()
}

// describe tells clients in other processes where everything is.
func (r *rig) describe(t *testing.T, language string) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"language": language, "open": r.open, "closed": r.closed, "hand": r.hand, "engine": r.engines[language], "region": region, "maxBody": maxBody,
		"lead": []string{leadID, leadSecret}, "guest": []string{guestID, guestSecret}, "apiKey": apiKey,
		"token": bearerToken(t, time.Now(), leadSecret), "oldToken": bearerToken(t, time.Now().Add(-13*time.Hour), leadSecret),
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// MarshalJSON gives the base URLs.
func (r *router) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]string{"data": r.Data, "admin": r.Admin, "control": r.Control})
}

// bearerToken makes SageMaker's token for clients that can only send an API key, as its token generator does: a presigned request,
// good for 12 hours.
func bearerToken(t *testing.T, made time.Time, secret string) string {
	t.Helper()
	const host = "sagemaker.amazonaws.com"
	req, err := http.NewRequest(http.MethodPost, "https://"+host+"/?Action=CallWithBearerToken&X-Amz-Expires=43200", nil)
	if err != nil {
		t.Fatal(err)
	}
	signed, _, err := v4.NewSigner().PresignHTTP(t.Context(), aws.Credentials{AccessKeyID: leadID, SecretAccessKey: secret}, req,
		emptyPayload, "sagemaker", region, made)
	if err != nil {
		t.Fatal(err)
	}
	return "sagemaker-api-key-" + base64.StdEncoding.EncodeToString([]byte(strings.TrimPrefix(signed, "https://")+"&Version=1"))
}
