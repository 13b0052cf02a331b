package workload

import (
	"errors"
)

// TraceOptions say how a trace is read. The zero value of a field selects its default.
type TraceOptions struct {
	BlockTokens int // tokens in a block of hash_ids; default 512, Mooncake's
}

// OpenTrace opens a trace of one JSON object a line, plain or gzip.
func OpenTrace(path string, o TraceOptions) (Workload, error) {
	return nil, errors.New("trace: not readable yet")
}
