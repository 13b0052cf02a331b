package aws

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sagemakerruntime"
)

const (
	prefixLength = 1024
	threshold    = 2
)

// placed is where one request went, as its answer says.
type placed struct{ replica, decision string }

// prefixRig is an endpoint of four replicas, made by API.
type prefixRig struct {
	*rig
	*sagemakerruntime.Client
	endpoint  string
	component *string // nil = of an endpoint without inference components
}

// testPrefixAware has an endpoint made by CreateEndpointConfig and CreateEndpoint, calls it through InvokeEndpointWithResponseStream
// and InvokeEndpoint, and prints what became of the requests.
func testPrefixAware(t *testing.T, r *rig) {
	p := prefixRig{r, r.open.runtime(leadID, leadSecret), "prefix", nil}
	createEndpoint(t, r.open.controlPlane(leadID, leadSecret), p.endpoint, variantOf("AllTraffic", "prefix", prefixAware(prefixLength, threshold)))

	same := p.each(t, 40, func(n int) (string, string) { return document(0) + fmt.Sprint("Question ", n), "" })
	many := p.each(t, 64, func(n int) (string, string) { return document(n), "" })
	sameID := p.each(t, 20, func(n int) (string, string) { return document(0) + fmt.Sprint("Question ", n), "tenant-1" })
	ids := p.each(t, 32, func(n int) (string, string) { return document(0), fmt.Sprint("tenant-", n) })
	short := p.each(t, 8, func(n int) (string, string) { return fmt.Sprint("Question ", n), "" })
	burst := p.burst(t, 6, document(0))

	rows := []string{"PREFIX_AWARE, PrefixLength 1024, ConcurrencyThreshold 2, 4 replicas\n" + row("", "requests", "replicas", "most on one", "affinity", "overflow")}
	for _, line := range []struct {
		what string
		all  []placed
	}{
		{"one prefix, other questions", same}, {"64 prefixes", many}, {"one prefix, one PrefixAwareId", sameID},
		{"one prefix, 32 PrefixAwareIds", ids}, {"6 at once of one prefix", burst},
	} {
		rows = append(rows, summary(line.what, line.all))
	}
	t.Log("\n" + strings.Join(rows, "\n"))

	if len(replicas(same)) != 1 || decided(same, "affinity") != len(same) {
		t.Errorf("one prefix went to %v", replicas(same))
	}
	if len(replicas(many)) != 4 || decided(many, "affinity") != len(many) {
		t.Errorf("64 prefixes went to %v, want all four", replicas(many))
	}
	if len(replicas(sameID)) != 1 {
		t.Errorf("one prefix with one id went to %v", replicas(sameID))
	}
	if len(replicas(ids)) < 2 || ids[1] != sameID[0] {
		t.Errorf("one prefix with 32 ids went to %v, with tenant-1 to %s and %s", replicas(ids), ids[1], sameID[0])
	}
	if len(replicas(short)) < 2 { // bodies that differ inside of the window
		t.Errorf("eight short prompts went to %v", replicas(short))
	}
	wantOverflow(t, burst, same[0].replica)
	p.wantMetrics(t, slices.Concat(same, many, sameID, ids, short, burst))
}

// testCopies does the same with an inference component of two copies on each of two hosts: what overflows goes to the other copy on the
// host first.
func testCopies(t *testing.T, r *rig) {
	p := prefixRig{r, r.open.runtime(leadID, leadSecret), "copies", aws.String("copied")}
	createComponent(t, r.open.controlPlane(leadID, leadSecret), p.endpoint, *p.component, "copies")
	burst := p.burst(t, 5, document(0))
	first, sibling, last := burst[0], burst[2], burst[4]
	host := func(to placed) string { return strings.Split(to.replica, ":")[0] }
	if burst[1] != first || first.decision != "affinity" || burst[3] != sibling || sibling.decision != "overflow" || sibling.replica == first.replica ||
		host(sibling) != host(first) || host(last) == host(first) || last.decision != "overflow" {
		t.Errorf("five at once of one prefix went to %v", burst)
	}
	t.Logf("two copies on each of two hosts, ConcurrencyThreshold 2, 5 at once of one prefix: %v", burst)
}

// document is a text that fills the prefix window, another for each number.
func document(n int) string {
	return strings.Repeat(fmt.Sprintf("Line of document %d. ", n), prefixLength/16)
}

// each sends requests one after the other, in turn by the two operations: the same body has the same prefix in both.
func (p prefixRig) each(t *testing.T, count int, request func(n int) (text, id string)) []placed {
	t.Helper()
	all := make([]placed, count)
	for n := range all {
		text, id := request(n)
		in := streamOf(p.endpoint, chat(text, 2))
		if id != "" {
			in.PrefixAwareId = &id
		}
		if n%4 == 3 {
			out, err := p.InvokeEndpoint(t.Context(), &sagemakerruntime.InvokeEndpointInput{
				EndpointName: in.EndpointName, ContentType: in.ContentType, Body: in.Body, PrefixAwareId: in.PrefixAwareId})
			if err != nil {
				t.Fatal(err)
			}
			h := headers(t, out.ResultMetadata)
			all[n] = placed{h.Get("X-Warmpath-Replica"), h.Get("X-Warmpath-Decision")}
			continue
		}
		out := p.openStream(t, in)
		if _, err := read(out.GetStream()); err != nil {
			t.Fatal(err)
		}
		all[n] = whereTo(t, out)
	}
	return all
}

func (p prefixRig) openStream(t *testing.T, in *sagemakerruntime.InvokeEndpointWithResponseStreamInput) *sagemakerruntime.InvokeEndpointWithResponseStreamOutput {
	t.Helper()
	out, err := p.InvokeEndpointWithResponseStream(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if p.component == nil && aws.ToString(out.InvokedProductionVariant) != "AllTraffic" {
		t.Errorf("variant %q answered", aws.ToString(out.InvokedProductionVariant))
	}
	return out
}

func whereTo(t *testing.T, out *sagemakerruntime.InvokeEndpointWithResponseStreamOutput) placed {
	t.Helper()
	h := headers(t, out.ResultMetadata)
	return placed{h.Get("X-Warmpath-Replica"), h.Get("X-Warmpath-Decision")}
}

// burst opens streams that do not end while the next ones are opened, and leaves them all.
func (p prefixRig) burst(t *testing.T, count int, text string) []placed {
	t.Helper()
	p.open.becomesIdle(t, p.endpoint)
	all := make([]placed, count)
	for n := range all {
		in := streamOf(p.endpoint, chat(text, 8_000))
		in.InferenceComponentName = p.component
		out := p.openStream(t, in)
		defer out.GetStream().Close()
		all[n] = whereTo(t, out)
	}
	return all
}

// wantOverflow checks that the preferred replica takes as many requests at once as the threshold says, the others the rest, each to
// the one that has the fewest.
func wantOverflow(t *testing.T, burst []placed, preferred string) {
	t.Helper()
	for n, to := range burst {
		want := "affinity"
		if n >= threshold {
			want = "overflow"
		}
		if to.decision != want || (to.replica == preferred) != (n < threshold) {
			t.Errorf("request %d of a burst went to %s by %s; the preferred one is %s", n+1, to.replica, to.decision, preferred)
		}
	}
	for replica, n := range replicas(burst) {
		if replica != preferred && n > 2 {
			t.Errorf("%d of 4 requests that overflow went to one of three replicas", n)
		}
	}
}

// wantMetrics checks that the router has counted what the answers say.
func (p prefixRig) wantMetrics(t *testing.T, all []placed) {
	t.Helper()
	for _, decision := range []string{"affinity", "overflow"} {
		for replica := range replicas(all) {
			want := 0
			for _, to := range all {
				if to == (placed{replica, decision}) {
					want++
				}
			}
			eventually(t, fmt.Sprintf("%d requests by %s are counted on %s", want, decision, replica), func() bool {
				got := 0.0
				for _, code := range []string{"200", "499"} {
					got += p.open.metric(t, fmt.Sprintf(`warmpath_requests_total{code=%q,decision=%q,endpoint=%q,replica=%q,`, code, decision, p.endpoint, replica))
				}
				return int(got) == want
			})
		}
	}
}

// replicas counts the requests of each replica.
func replicas(all []placed) map[string]int {
	counts := map[string]int{}
	for _, to := range all {
		counts[to.replica]++
	}
	return counts
}

func decided(all []placed, decision string) (n int) {
	for _, to := range all {
		if to.decision == decision {
			n++
		}
	}
	return n
}

func summary(what string, all []placed) string {
	counts := replicas(all)
	most := slices.MaxFunc(slices.Collect(maps.Values(counts)), cmp.Compare[int])
	share := func(n int) string { return fmt.Sprintf("%.0f %%", 100*float64(n)/float64(len(all))) }
	return row(what, fmt.Sprint(len(all)), fmt.Sprint(len(counts)), share(most), share(decided(all, "affinity")), share(decided(all, "overflow")))
}

func row(cells ...string) string {
	return fmt.Sprintf("  %-30s %9s %9s %12s %9s %9s", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5])
}
