package simulate

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseStrategies(t *testing.T) {
	tests := []struct {
		list string
		want []Strategy
		err  string
	}{
		{"RANDOM", []Strategy{random}, ""},
		{"RANDOM,LEAST_OUTSTANDING_REQUESTS", []Strategy{random, outstanding}, ""},
		{
			"RANDOM,PREFIX_AWARE:prefix_length=1024,concurrency_threshold=16, LEAST_OUTSTANDING_REQUESTS",
			[]Strategy{random, aware, outstanding}, "",
		},
		{
			"PREFIX_AWARE:concurrency_threshold=16,prefix_length=1024,PREFIX_AWARE:prefix_length=4096,concurrency_threshold=4",
			[]Strategy{aware, prefixAware(4096, 4)}, "",
		},
		{"PREFIX_AWARE", nil, "strategy: PREFIX_AWARE needs prefix_length, 1024 to 65536"},
		{"RANDOM:prefix_length=1024", nil, "strategy: RANDOM takes no prefix_length or concurrency_threshold; they belong to PREFIX_AWARE"},
		{"prefix_aware", nil, `strategy: "prefix_aware" is unknown; did you mean PREFIX_AWARE?`},
		{"PREFIX_AWARE:length=5", nil, `strategy: PREFIX_AWARE: option "length" is unknown; use concurrency_threshold, prefix_length`},
		{"PREFIX_AWARE:prefix_len=5", nil, `strategy: PREFIX_AWARE: option "prefix_len" is unknown; did you mean prefix_length?`},
		{"PREFIX_AWARE:prefix_length=4k", nil, `strategy: PREFIX_AWARE: prefix_length is "4k"; give a whole number`},
	}
	for _, test := range tests {
		got, err := ParseStrategies(test.list)
		if message(err) != test.err {
			t.Errorf("%s: error %q, want %q", test.list, message(err), test.err)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.list, diff)
		}
	}
}

func FuzzParseStrategies(f *testing.F) {
	f.Add("RANDOM,PREFIX_AWARE:prefix_length=1024,concurrency_threshold=16")
	f.Add(",:=,=")
	f.Fuzz(func(t *testing.T, list string) {
		got, err := ParseStrategies(list)
		if err == nil && len(got) == 0 {
			t.Errorf("%q names no strategy and is no error", list)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "strategy: ") {
			t.Errorf("%q: error %q does not say what it is about", list, err)
		}
	})
}
