package fleet

import (
	"encoding/json"
	"time"
)

// Signals is what a replica's engine last said of itself on its metrics page. They inform the operator and tell how large
// the cache is. They are never the load that strategies go by: a figure seconds old sends every request to the replica that
// was idle then, while InFlight is exact. The zero value means that nothing is known, which is not a load of zero.
type Signals struct {
	// At is when the page was read; zero if the last attempt failed or there was none.
	At time.Time `json:"at,omitzero"`
	// Running and Waiting are requests in the engine's batch and in its queue, whoever sent them.
	Running Reading `json:"running_requests,omitzero"`
	Waiting Reading `json:"waiting_requests,omitzero"`
	// CacheUsage is the share of the KV cache in use, 0 to 1. Most engines count the blocks of running requests only, so a
	// warm and idle one reports 0.
	CacheUsage Reading `json:"kv_cache_usage,omitzero"`
	// CacheTokens is the size of the KV cache in tokens; 0 = unknown. It outlives a page that could not be read, because a
	// process does not change it.
	CacheTokens int64 `json:"cache_tokens,omitzero"`
	// BlockTokens is the size of one cache block in tokens; 0 = unknown.
	BlockTokens int64 `json:"block_tokens,omitzero"`
	// QueryTokens and HitTokens are prompt tokens looked up in the prefix cache and found there. They only grow.
	QueryTokens Reading `json:"prefix_cache_query_tokens,omitzero"`
	HitTokens   Reading `json:"prefix_cache_hit_tokens,omitzero"`
	// Asleep says that the engine accepts requests and does not answer them until somebody wakes or resumes it.
	Asleep bool `json:"asleep,omitzero"`
}

// Reading is a figure from a metrics page; the zero Reading is an unknown one.
type Reading struct {
	Value float64 // finite and at least 0
	Known bool
}

// Read makes a known Reading.
func Read(value float64) Reading { return Reading{Value: value, Known: true} }

// MarshalJSON writes the number, or null for an unknown one.
func (r Reading) MarshalJSON() ([]byte, error) {
	if !r.Known {
		return []byte("null"), nil
	}
	return json.Marshal(r.Value)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (r *Reading) UnmarshalJSON(text []byte) error {
	var value *float64
	if err := json.Unmarshal(text, &value); err != nil {
		return err
	}
	*r = Reading{}
	if value != nil {
		*r = Read(*value)
	}
	return nil
}

// Signals returns what the engine last said of itself. It never blocks.
func (r *Replica) Signals() Signals {
	if s := r.signals.Load(); s != nil {
		return *s
	}
	return Signals{}
}

// SetSignals replaces what the engine has said of itself. MarkLost forgets it, as does removal from the fleet.
func (r *Replica) SetSignals(s Signals) { r.signals.Store(&s) }
