package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// listed reads all pages of a list and gives the names in their order.
func (p *plane) listed(t testing.TB, operation, member, filter string) (names []string, pages int) {
	t.Helper()
	kind := strings.TrimSuffix(member, "s")
	body := "{" + filter + "}"
	for {
		pages++
		page := p.must(t, operation, body)
		for _, item := range page[member].([]any) {
			names = append(names, item.(map[string]any)[kind+"Name"].(string))
		}
		token, more := page["NextToken"].(string)
		if !more {
			return names, pages
		}
		body = `{"NextToken":"` + token + `"` + strings.TrimRight(","+filter, ",") + "}"
	}
}

func TestListEndpoints(t *testing.T) {
	p := newPlane(t)
	p.config(t, "c", okVariant)
	p.config(t, "slow", `"VariantName":"v","ModelName":"cold"`)
	for _, e := range []struct{ name, config string }{{"beta", "c"}, {"Alpha", "slow"}, {"gamma", "c"}} {
		p.endpoint(t, e.name, e.config)
		p.now = p.now.Add(time.Second)
	}
	p.endpoint(t, "delta", "c") // in the same moment as epsilon
	p.endpoint(t, "epsilon", "c")
	p.router.set("cold", 1)
	p.advance() // Alpha is the last to change
	tests := []struct {
		filter string
		want   string
		pages  int
	}{
		{``, "epsilon delta gamma Alpha beta", 1},
		{`"SortOrder":"Ascending"`, "beta Alpha gamma delta epsilon", 1},
		{`"MaxResults":2`, "epsilon delta gamma Alpha beta", 3},
		{`"MaxResults":1,"SortOrder":"Ascending"`, "beta Alpha gamma delta epsilon", 5},
		{`"MaxResults":5`, "epsilon delta gamma Alpha beta", 1},
		{`"SortBy":"Name","SortOrder":"Ascending","MaxResults":3`, "Alpha beta delta epsilon gamma", 2},
		{`"SortBy":"Name"`, "gamma epsilon delta beta Alpha", 1},
		{`"SortBy":"Status","SortOrder":"Ascending"`, "Alpha beta delta epsilon gamma", 1},
		{`"NameContains":"AL"`, "Alpha", 1},
		{`"StatusEquals":"InService","NameContains":"eta"`, "beta", 1},
		{`"StatusEquals":"Failed"`, "", 1},
		{`"CreationTimeAfter":1796004099.5`, "epsilon delta gamma Alpha", 1},
		{`"CreationTimeBefore":1.7960040995e9`, "beta", 1},
		{`"CreationTimeAfter":1796004099,"CreationTimeBefore":1796004101`, "gamma Alpha", 1},
		{`"LastModifiedTimeAfter":1796004101.5`, "epsilon delta Alpha", 1},
		{`"LastModifiedTimeBefore":1796004101.5`, "gamma beta", 1},
	}
	for _, test := range tests {
		names, pages := p.listed(t, "ListEndpoints", "Endpoints", test.filter)
		if got := strings.Join(names, " "); got != test.want || pages != test.pages {
			t.Errorf("%s: got %s in %d pages, want %s in %d", test.filter, got, pages, test.want, test.pages)
		}
	}
	same(t, "summary", map[string]any{
		"EndpointName": "Alpha", "EndpointArn": arnPrefix + "endpoint/alpha", "EndpointStatus": "InService",
		"CreationTime": 1796004099.5, "LastModifiedTime": 1796004101.5,
	}, p.must(t, "ListEndpoints", `{"NameContains":"alpha"}`)["Endpoints"].([]any)[0].(map[string]any))
}

// Rows that come and go while a client turns pages are neither shown twice nor make others be left out.
func TestPagesOfAListThatChanges(t *testing.T) {
	p := newPlane(t)
	for i := range 6 {
		p.config(t, fmt.Sprintf("c%d", i), okVariant)
		p.now = p.now.Add(time.Second)
	}
	first := p.must(t, "ListEndpointConfigs", `{"MaxResults":2}`)
	p.config(t, "new", okVariant)
	for _, name := range []string{"c4", "c3"} { // the last one that was shown, and the next
		p.must(t, "DeleteEndpointConfig", `{"EndpointConfigName":"`+name+`"}`)
	}
	names, _ := p.listed(t, "ListEndpointConfigs", "EndpointConfigs", `"NextToken":"`+first["NextToken"].(string)+`"`)
	if want := []string{"c2", "c1", "c0"}; !slices.Equal(names, want) {
		t.Errorf("after c5 and c4: got %v, want %v", names, want)
	}
	if a := p.call(t, "ListEndpointConfigs", `{"SortBy":"Name","NextToken":"`+first["NextToken"].(string)+`"}`); !strings.HasPrefix(a.message(), "Invalid NextToken") {
		t.Errorf("in another order: got %v, want an error", a.body)
	}
}

func TestListEndpointConfigs(t *testing.T) {
	p := newPlane(t)
	if got := p.must(t, "ListEndpointConfigs", "{}"); cmp.Diff(map[string]any{"EndpointConfigs": []any{}}, got) != "" {
		t.Errorf("got %v, want an empty list", got)
	}
	for i := range 11 {
		p.config(t, fmt.Sprintf("c%02d", i), okVariant)
	}
	names, pages := p.listed(t, "ListEndpointConfigs", "EndpointConfigs", `"SortBy":"Name","SortOrder":"Ascending"`)
	if len(names) != 11 || pages != 2 || !slices.IsSorted(names) {
		t.Errorf("got %v in %d pages, want 11 in two", names, pages)
	}
}

func TestTags(t *testing.T) {
	p := newPlane(t)
	p.must(t, "CreateEndpointConfig", `{"EndpointConfigName":"C","ProductionVariants":[{`+okVariant+`}],"Tags":[{"Key":"team","Value":"a"},{"Key":"empty","Value":""}]}`)
	p.must(t, "CreateEndpoint", `{"EndpointName":"E","EndpointConfigName":"C","Tags":[{"Key":"team","Value":"b"}]}`)
	tags := func(kind string) string {
		var all []string
		for _, each := range p.must(t, "ListTags", `{"ResourceArn":"`+arnPrefix+kind+`"}`)["Tags"].([]any) {
			all = append(all, each.(map[string]any)["Key"].(string)+"="+each.(map[string]any)["Value"].(string))
		}
		return strings.Join(all, " ")
	}
	if c, e := tags("endpoint-config/c"), tags("endpoint/e"); c != "team=a empty=" || e != "team=b" {
		t.Errorf("got %q and %q", c, e)
	}
	p.must(t, "AddTags", `{"ResourceArn":"`+arnPrefix+`endpoint/e","Tags":[{"Key":"team","Value":"c"},{"Key":"cost center","Value":"1/2"}]}`)
	p.must(t, "DeleteTags", `{"ResourceArn":"`+arnPrefix+`endpoint-config/c","TagKeys":["team","none"]}`)
	p.open(t)
	if c, e := tags("endpoint-config/c"), tags("endpoint/e"); c != "empty=" || e != "team=c cost center=1/2" {
		t.Errorf("got %q and %q", c, e)
	}
	var many []string
	for i := range 50 {
		many = append(many, fmt.Sprintf(`{"Key":"k%d","Value":""}`, i))
	}
	if a := p.call(t, "AddTags", `{"ResourceArn":"`+arnPrefix+`endpoint/e","Tags":[`+strings.Join(many, ",")+`]}`); a.body["__type"] != "ResourceLimitExceeded" {
		t.Errorf("52 tags: got %v, want ResourceLimitExceeded", a.body)
	}
	if e := tags("endpoint/e"); e != "team=c cost center=1/2" {
		t.Errorf("after the refusal: %q", e)
	}
}
