package realengine

import (
	"fmt"
	"strings"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

// routing is how one run chooses replicas.
type routing struct {
	strategy     string
	prefixLength int // 0 for strategies without a prefix window
	threshold    int
}

func (r routing) String() string {
	if r.prefixLength == 0 {
		return r.strategy
	}
	return fmt.Sprintf("%s %d", r.strategy, r.prefixLength)
}

func (r routing) configuration(data, admin string, replicas []string) string {
	knobs := ""
	if r.prefixLength > 0 {
		knobs = fmt.Sprintf(", prefix_length: %d, concurrency_threshold: %d", r.prefixLength, r.threshold)
	}
	return fmt.Sprintf(`data:
  listen: %s
  drain: {delay: 0s, limit: 10s}
admin: {listen: %s}
pools:
  engines:
    engine: llamacpp
    static: [%s]
endpoints:
  chat:
    models: [%s]
    variants:
      - name: main
        pool: engines
        weight: 1
        routing: {strategy: %s%s}
`, data, admin, strings.Join(replicas, ", "), lab.ModelName, r.strategy, knobs)
}
