package workload

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"slices"
	"time"

	"github.com/warmpath/warmpath/internal/recording"
)

// OpenRecording opens a recording of live traffic, plain or gzip. Its requests have Blocks and no Body: a block for every step of
// the recording, at four characters a token. What a recording does not cover of a long prompt is taken as shared with nobody, and
// its length from the size of the body.
//
// A recording is read whole and sorted, since its rows are in the order in which requests ended. The error names the line it is
// about.
func OpenRecording(path string) (Workload, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("recording: %w", err)
	}
	defer f.Close()
	text, err := decompressed(f)
	if err != nil {
		return nil, fmt.Errorf("recording: %s: %w", path, err)
	}
	requests, err := readRecording(text)
	if err != nil {
		return nil, fmt.Errorf("recording: %s: %w", path, err)
	}
	return &recorded{path, requests}, nil
}

type recorded struct {
	path     string
	requests []Request
}

func (r *recorded) Requests() iter.Seq[Request] { return slices.Values(r.requests) }
func (r *recorded) Err() error                  { return nil }
func (r *recorded) Name() string                { return r.path }
func (r *recorded) Len() int                    { return len(r.requests) }

// readRecording reads all rows and puts them in order of time, the first at 0.
func readRecording(from io.Reader) ([]Request, error) {
	reader, err := recording.NewReader(from)
	if err != nil {
		return nil, err
	}
	var requests []Request
	for {
		row, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		requests = append(requests, recordedRequest(&row, reader.Header.Step, len(requests)))
	}
	if len(requests) == 0 {
		return nil, errors.New("has no requests yet")
	}
	slices.SortStableFunc(requests, func(a, b Request) int { return cmp.Compare(a.At, b.At) })
	begin := requests[0].At
	for i := range requests {
		requests[i].At -= begin
	}
	return requests, nil
}

// recordedRequest makes a request of the n-th row. Its own last block, if it needs one, has an id that no other row has.
func recordedRequest(row *recording.Row, step, n int) Request {
	blockTokens := max(1, step/tokenBytes)
	characters := row.Characters
	if characters >= recording.MaxCharacters {
		characters = max(characters, int(min(row.BytesIn, maxTokens*tokenBytes)))
	}
	tokens := max(1, (characters+tokenBytes-1)/tokenBytes)
	blocks := row.Links()
	for i := 0; len(blocks)*blockTokens < tokens; i++ {
		blocks = append(blocks, mix(math.MaxUint64-uint64(n)<<20-uint64(i)))
	}
	return Request{
		At: time.Duration(max(-maxEarlier, min(row.At, maxLater)) * float64(time.Millisecond)), Path: completionPath,
		Blocks: blocks, BlockTokens: blockTokens,
		PromptTokens: tokens, OutputTokens: int(min(row.OutputTokens, maxTokens)),
	}
}

// A request may have come before its file was begun, but neither much before nor centuries later. In milliseconds.
const (
	maxEarlier = 365 * 24 * 3600e3
	maxLater   = 100 * maxEarlier
)
