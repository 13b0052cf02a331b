package realengine

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/warmpath/warmpath/test/e2e/lab"
)

const (
	// dataVariable names the folder with data/traces. By default it lies beside the repository and is called shared.
	dataVariable = "WARMPATH_E2E_DATA"

	outputTokens = 16
)

// played is what one bench plays.
type played struct {
	name  string
	calls []call
	// warmUp is how many of the calls are not counted.
	warmUp int
	// clients is how many send one call after the other. With 0 every call goes out at its own time, whatever became
	// of those before it.
	clients int
}

// call is one request of a workload.
type call struct {
	at       time.Duration // after the start of the run; ignored when the workload has clients
	messages []message
}

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// documents describes questions about documents that many requests share. Each round asks about every document once, in
// an order of its own: all are equally popular, and none is first met among the counted requests of a run with a warm-up.
type documents struct {
	name     string
	preamble int // bytes before every document, the same for all
	count    int // of documents
	length   int // bytes of a document
	own      int // bytes of a question, each asked once
	warmUp   int // rounds that are not counted
	counted  int // rounds that are
	perSec   float64
}

// workload draws documents, questions and arrival times, a Poisson process, from the seed.
func (d documents) workload(seed uint64) played {
	random := rand.New(rand.NewPCG(seed, 0))
	preamble := prose(random, d.preamble)
	texts := make([]string, d.count)
	for i := range texts {
		texts[i] = preamble + prose(random, d.length)
	}
	w := played{name: d.name, warmUp: d.warmUp * d.count}
	at := time.Duration(0)
	for range d.warmUp + d.counted {
		for _, document := range random.Perm(d.count) {
			at += arrival(random, d.perSec)
			w.calls = append(w.calls, call{at, []message{{"user", texts[document] + prose(random, d.own)}}})
		}
	}
	return w
}

// sessions describes conversations that are held side by side and take turns in a fixed order. Every turn sends the whole
// conversation so far. The answers in it are not the engines', so that the requests are the same whoever answered.
type sessions struct {
	count   int // of conversations
	turns   int // of each
	opening int // bytes of the first message
	answer  int // bytes of an answer
	next    int // bytes of a later message
	perSec  float64
}

// workload draws messages and arrival times, a Poisson process, from the seed.
func (s sessions) workload(seed uint64) played {
	random := rand.New(rand.NewPCG(seed, 0))
	w := played{name: "sessions"}
	held := make([][]message, s.count)
	at := time.Duration(0)
	for turn := range s.turns {
		for i := range held {
			if turn == 0 {
				held[i] = []message{{"user", prose(random, s.opening)}}
			} else {
				held[i] = append(held[i], message{"assistant", prose(random, s.answer)}, message{"user", prose(random, s.next)})
			}
			at += arrival(random, s.perSec)
			w.calls = append(w.calls, call{at, held[i][:len(held[i]):len(held[i])]})
		}
	}
	return w
}

func arrival(random *rand.Rand, perSec float64) time.Duration {
	return time.Duration(random.ExpFloat64() / perSec * float64(time.Second))
}

// prose is random lower-case words, length bytes of them.
func prose(random *rand.Rand, length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('a' + random.IntN(26))
		if random.IntN(6) == 0 {
			text[i] = ' '
		}
	}
	return string(text)
}

// writeTrace writes the calls to a file as bench reads them: one chat completion a line, with its time.
func writeTrace(t *testing.T, w played, path string) {
	t.Helper()
	type body struct {
		Model       string          `json:"model"`
		Messages    []message       `json:"messages"`
		MaxTokens   int             `json:"max_tokens"`
		Temperature float64         `json:"temperature"`
		IgnoreEOS   bool            `json:"ignore_eos"`
		Stream      bool            `json:"stream"`
		Options     map[string]bool `json:"stream_options"`
	}
	type row struct {
		Timestamp float64 `json:"timestamp"` // ms
		Body      body    `json:"body"`
	}
	var text bytes.Buffer
	rows := json.NewEncoder(&text)
	for _, c := range w.calls {
		if err := rows.Encode(row{float64(c.at) / float64(time.Millisecond), body{
			Model: lab.ModelName, Messages: c.messages, MaxTokens: outputTokens, IgnoreEOS: true, Stream: true, Options: map[string]bool{"include_usage": true},
		}}); err != nil {
			t.Fatalf("trace: %v", err)
		}
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		t.Fatalf("trace: %v", err)
	}
}

func recordingPath(root string) string {
	folder := os.Getenv(dataVariable)
	if folder == "" {
		folder = filepath.Join(filepath.Dir(root), "shared")
	}
	return filepath.Join(folder, "data", "traces", "agent_magagent.jsonl.gz")
}

// agents reads the first count prompts of at most limit bytes from a recording of agents at work: gzipped lines of JSON
// with the whole prompt in "input". They keep their order, since each continues earlier ones.
func agents(t *testing.T, path string, count, limit, clients int) played {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("agent recording: %v: set %s to the folder that holds data/traces", err, dataVariable)
	}
	defer file.Close()
	prompts, err := readPrompts(file, count, limit)
	if err != nil {
		t.Fatalf("agent recording: %s: %v", path, err)
	}
	w := played{name: "agents", clients: clients}
	for _, prompt := range prompts {
		w.calls = append(w.calls, call{messages: []message{{"user", prompt}}})
	}
	return w
}

func readPrompts(r io.Reader, count, limit int) ([]string, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 16<<20)
	var prompts []string
	for len(prompts) < count && lines.Scan() {
		var row struct{ Input string }
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			return nil, err
		}
		if len(row.Input) <= limit {
			prompts = append(prompts, row.Input)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(prompts) < count {
		return nil, fmt.Errorf("%d prompts of at most %d bytes, want %d", len(prompts), limit, count)
	}
	return prompts, nil
}
