package realengine

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// dataVariable names the folder with data/traces. By default it lies beside the repository and is called shared.
const dataVariable = "WARMPATH_E2E_DATA"

// call is one request of a workload.
type call struct {
	prompt  string
	at      time.Duration // after the start of the run; ignored when the workload has clients
	counted bool          // false for warm-up
}

// workload is a list of calls and how they are sent.
type workload struct {
	name  string
	calls []call
	// clients is how many send one call after the other. With 0 every call goes out at its own time, whatever became
	// of those before it.
	clients int
}

// documents describes questions about documents that many requests share. Each round asks about every document once, in
// an order of its own: all are equally popular, and none is first met among the counted requests.
type documents struct {
	name     string
	preamble int     // bytes before every document, the same for all
	count    int     // of documents
	length   int     // bytes of a document
	own      int     // bytes of a question, each asked once
	warmUp   int     // rounds that are not counted
	counted  int     // rounds that are
	perSec   float64 // mean of the Poisson arrivals; 0 = all at once
	fromSeed uint64
}

// workload draws documents, questions and arrival times from the seed.
func (d documents) workload() workload {
	random := rand.New(rand.NewPCG(d.fromSeed, 0))
	preamble := prose(random, d.preamble)
	texts := make([]string, d.count)
	for i := range texts {
		texts[i] = preamble + prose(random, d.length)
	}
	w := workload{name: d.name}
	at := time.Duration(0)
	for round := range d.warmUp + d.counted {
		for _, document := range random.Perm(d.count) {
			if wait := random.ExpFloat64(); d.perSec > 0 {
				at += time.Duration(wait / d.perSec * float64(time.Second))
			}
			prompt := texts[document] + prose(random, d.own)
			w.calls = append(w.calls, call{prompt: prompt, at: at, counted: round >= d.warmUp})
		}
	}
	return w
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

func recordingPath(root string) string {
	folder := os.Getenv(dataVariable)
	if folder == "" {
		folder = filepath.Join(filepath.Dir(root), "shared")
	}
	return filepath.Join(folder, "data", "traces", "agent_magagent.jsonl.gz")
}

// agents reads the first count prompts of at most limit bytes from a recording of agents at work: gzipped lines of JSON
// with the whole prompt in "input". They keep their order, since each continues earlier ones.
func agents(t *testing.T, path string, count, limit, clients int) workload {
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
	w := workload{name: "agents", clients: clients}
	for _, prompt := range prompts {
		w.calls = append(w.calls, call{prompt: prompt, counted: true})
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

// commonest is the share of prompts, 0 to 1, that begin with the most frequent first length characters. Prompts
// shorter than that count whole.
func (w workload) commonest(length int) float64 {
	groups := map[string]int{}
	most := 0
	for _, c := range w.calls {
		runes := []rune(strings.ToValidUTF8(c.prompt, "?"))
		key := string(runes[:min(length, len(runes))])
		groups[key]++
		most = max(most, groups[key])
	}
	return float64(most) / float64(len(w.calls))
}
