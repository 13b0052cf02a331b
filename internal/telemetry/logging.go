package telemetry

import (
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// Longest texts, in bytes, that one access line takes from a client or from an error.
const (
	maxLoggedPath  = 256
	maxLoggedID    = 128
	maxLoggedError = 512
)

// NewLogger makes a logger that writes lines of the given format (text, json) from the given level on (debug, info, warn,
// error). An unknown format or level is an error that names the allowed ones.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	h, err := newHandler(w, format, level)
	if err != nil {
		return nil, err
	}
	return slog.New(h), nil
}

func newHandler(w io.Writer, format, level string) (slog.Handler, error) {
	var least slog.Level
	switch level {
	case "debug":
		least = slog.LevelDebug
	case "info":
		least = slog.LevelInfo
	case "warn":
		least = slog.LevelWarn
	case "error":
		least = slog.LevelError
	default:
		return nil, fmt.Errorf("log level: %q is unknown; use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: least}
	switch format {
	case "text":
		return slog.NewTextHandler(w, options), nil
	case "json":
		return slog.NewJSONHandler(w, options), nil
	}
	return nil, fmt.Errorf("log format: %q is unknown; use text or json", format)
}

// accessLine collects the attributes of one line.
type accessLine []slog.Attr

func (l *accessLine) identity(r *Request) {
	l.text("id", clip(r.ID, maxLoggedID))
	l.text("method", r.Method)
	path, _, _ := strings.Cut(r.Path, "?") // a query can carry a key
	l.text("path", clip(path, maxLoggedPath))
	l.text("api", r.API)
	l.text("key", r.Key)
	l.text("endpoint", r.Endpoint)
	l.text("variant", r.Variant)
	if r.Shadow {
		*l = append(*l, slog.Bool("shadow", true))
	}
	l.text("replica", r.Replica)
	l.text("strategy", r.Strategy)
	l.text("decision", r.Decision)
	*l = append(*l, slog.Int("status", r.Status))
	l.text("outcome", r.Outcome)
	l.text("code", r.Code)
	*l = append(*l, slog.Bool("stream", r.Stream), slog.Int("attempts", r.Attempts))
}

func (l *accessLine) phases(r *Request) {
	l.milliseconds("decide_ms", r.Decide)
	l.milliseconds("connect_ms", r.Connect)
	l.milliseconds("first_byte_ms", r.FirstByte)
	l.milliseconds("first_token_ms", r.FirstToken)
	_, model := r.engineTime()
	l.milliseconds("model_ms", model)
	l.milliseconds("total_ms", r.Total)
	l.milliseconds("added_ms", r.Added)
}

func (l *accessLine) amounts(r *Request) {
	*l = append(*l, slog.Int64("bytes_in", r.BytesIn), slog.Int64("bytes_out", r.BytesOut))
	if r.Stream {
		*l = append(*l, slog.Int64("chunks", r.Chunks))
	}
	if r.HasUsage {
		*l = append(*l,
			slog.Int64("prompt_tokens", r.PromptTokens),
			slog.Int64("cached_tokens", r.CachedTokens),
			slog.Int64("output_tokens", r.OutputTokens))
	}
	if predicted, ok := r.predictedTokens(); ok {
		*l = append(*l, slog.Int64("predicted_tokens", int64(math.Round(predicted))))
	}
}

func (l *accessLine) text(key, value string) {
	if value != "" {
		*l = append(*l, slog.String(key, value))
	}
}

// milliseconds adds d to the microsecond: finer is noise.
func (l *accessLine) milliseconds(key string, d time.Duration) {
	if d > 0 {
		*l = append(*l, slog.Float64(key, math.Round(d.Seconds()*1e6)/1e3))
	}
}

// clip shortens s to at most limit bytes and says so with an ellipsis.
func clip(s string, limit int) string {
	const ellipsis = "…"
	if len(s) <= limit {
		return s
	}
	end := limit - len(ellipsis)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + ellipsis
}
