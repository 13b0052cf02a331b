package suggest

import "testing"

func TestClosest(t *testing.T) {
	strategies := []string{"RANDOM", "LEAST_OUTSTANDING_REQUESTS", "PREFIX_AWARE"}
	tests := []struct {
		name, word string
		choices    []string
		want       string
	}{
		{"one edit", "RANDON", strategies, "RANDOM"},
		{"another case", "prefix_aware", strategies, "PREFIX_AWARE"},
		{"a third of a long word", "LEAST_OUTSTANDING_REQ", strategies, "LEAST_OUTSTANDING_REQUESTS"},
		{"nothing near", "ROUND_ROBIN", strategies, ""},
		{"two letters that share nothing", "ab", []string{"cd"}, ""},
		{"its beginning", "prefix", strategies, "PREFIX_AWARE"},
		{"the beginning of several", "li", []string{"list", "listen"}, "list"},
		{"more than a third", "llama-3.1-70b-instruct", []string{"llama-3.1-70b"}, ""},
		{"a letter less", "llama-31-70b", []string{"llama-3.1-70b"}, "llama-3.1-70b"},
		{"no word", "", []string{"ab"}, ""},
		{"no choices", "x", nil, ""},
		{"the nearest of several", "listem", []string{"list", "listen", "liston"}, "listen"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Closest(tt.word, tt.choices); got != tt.want {
				t.Errorf("Closest(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}
