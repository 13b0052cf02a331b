package recording

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/warmpath/warmpath/internal/prompt"
	"github.com/warmpath/warmpath/internal/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// open begins a recording in a new directory. Its drops are counted.
func open(t testing.TB, adjust func(*Options)) (r *Recorder, path string, dropped *atomic.Int64) {
	t.Helper()
	dropped = new(atomic.Int64)
	o := Options{
		Endpoint: "chat", Path: filepath.Join(t.TempDir(), "recording.jsonl"), Sample: 1, MaxSize: 1 << 20, Keep: 2,
		Now: func() time.Time { return epoch }, Random: func() uint64 { return 0 },
		Dropped: func() { dropped.Add(1) }, Log: slog.New(slog.DiscardHandler),
	}
	if adjust != nil {
		adjust(&o)
	}
	r, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r, o.Path, dropped
}

// take records a completion with the given prompt.
func take(r *Recorder, at time.Duration, text string) {
	rec := telemetry.Request{Start: epoch.Add(at), BytesIn: int64(len(text)), BytesOut: 7, HasUsage: true, PromptTokens: 5, CachedTokens: 4, OutputTokens: 3}
	r.Take(&rec, func(dst []byte) []byte { return prompt.AppendBytes(dst, []byte(text), MaxCharacters, "hint-marker") })
}

func read(t testing.TB, path string) (Header, []Row) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var rows []Row
	for {
		row, err := r.Next()
		if errors.Is(err, io.EOF) {
			return r.Header, rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

func TestWhatIsRecorded(t *testing.T) {
	r, path, dropped := open(t, nil)
	take(r, 1500*time.Microsecond, strings.Repeat("a", 600))
	r.Close()
	take(r, 0, "after the end")
	header, rows := read(t, path)
	if diff := cmp.Diff(Header{Version: 1, Endpoint: "chat", Started: epoch, Step: 256, Sample: 1}, header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
	want := []Row{{At: 1.5, BytesIn: 600, BytesOut: 7, PromptTokens: 5, CachedTokens: 4, OutputTokens: 3, Characters: 600}}
	if diff := cmp.Diff(want, rows, cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Chain" }, cmp.Ignore())); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if got := len(rows[0].Links()); got != 3 || dropped.Load() != 0 {
		t.Errorf("got %d links and %d dropped, want 3 and 0", got, dropped.Load())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v; want a file that its owner alone may read", info.Mode(), err)
	}
}

func TestChainsAgreeAsFarAsThePrompts(t *testing.T) {
	r, path, _ := open(t, nil)
	shared := strings.Repeat("s", 700)
	for _, text := range []string{shared + "one", shared + "two and more", "other" + shared} {
		take(r, 0, text)
	}
	r.Close()
	_, rows := read(t, path)
	a, b, c := rows[0].Links(), rows[1].Links(), rows[2].Links()
	if !slices.Equal(a[:2], b[:2]) || a[2] == b[2] || a[0] == c[0] {
		t.Errorf("chains: %x, %x, %x; want the first two to agree in two links", a, b, c)
	}
	if a[0] == a[1] {
		t.Error("equal steps at different depths have one link")
	}
}

// No text, no part of one, and nothing by which a guessed prompt could be recognised.
func TestNoTextIsRecorded(t *testing.T) {
	const marker = "SECRET-MARKER"
	text := strings.Repeat(marker+" ", 1000)
	var links [][]uint64
	for range 2 {
		r, path, _ := open(t, nil)
		take(r, 0, text)
		r.Close()
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, word := range []string{marker, "SECRET", "MARKER", "hint-marker"} {
			if bytes.Contains(data, []byte(word)) {
				t.Errorf("%q is in the file", word)
			}
		}
		_, rows := read(t, path)
		links = append(links, rows[0].Links())
	}
	for _, link := range links[0] {
		if slices.Contains(links[1], link) {
			t.Fatal("two files have a link of one prompt in common")
		}
	}
}

func TestRotationIsBounded(t *testing.T) {
	r, path, dropped := open(t, func(o *Options) { o.MaxSize = 1000 })
	for i := range 40 {
		take(r, time.Duration(i)*time.Second, strings.Repeat("r", 300))
	}
	r.Close()
	names, err := filepath.Glob(path + "*")
	if want := []string{path, path + ".1", path + ".2"}; err != nil || !slices.Equal(names, want) {
		t.Fatalf("files: got %q (error %v), want %q", names, err, want)
	}
	last := 40.0
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || info.Size() > 1000+maxRow {
			t.Errorf("%s: %d bytes, error %v; want at most 1000 and a line", name, info.Size(), err)
		}
		_, rows := read(t, name)
		if newest := rows[len(rows)-1].At / 1000; newest >= last {
			t.Errorf("%s: newest request of second %g, want one before %g", name, newest, last)
		} else {
			last = rows[0].At / 1000
		}
	}
	if dropped.Load() != 0 {
		t.Errorf("%d requests dropped, want 0", dropped.Load())
	}
}

// maxRow is more than any row of the rotation test takes, in bytes.
const maxRow = 300

func TestAnOldRecordingIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recording.jsonl")
	for i := range 4 {
		r, _, _ := open(t, func(o *Options) { o.Path = path })
		take(r, time.Duration(i)*time.Second, "x")
		r.Close()
	}
	for n, want := range []float64{3000, 2000, 1000} {
		if _, rows := read(t, numbered(path, n)); len(rows) != 1 || rows[0].At != want {
			t.Errorf("%s: %v, want one request at %g", numbered(path, n), rows, want)
		}
	}
	r, _, _ := open(t, func(o *Options) { o.Path, o.Keep = path, 0 })
	r.Close()
	if _, rows := read(t, path); len(rows) != 0 {
		t.Errorf("got %d requests in a new file, want none", len(rows))
	}
}

func TestSample(t *testing.T) {
	draws := []uint64{0, 1 << 62, 1 << 63, 3 << 62}
	next := 0
	r, path, dropped := open(t, func(o *Options) {
		o.Sample = 0.5
		o.Random = func() uint64 { next++; return draws[next-1] }
	})
	for range draws {
		take(r, 0, "x")
	}
	r.Close()
	if _, rows := read(t, path); len(rows) != 2 || dropped.Load() != 0 {
		t.Errorf("got %d requests and %d dropped, want 2 and 0", len(rows), dropped.Load())
	}
}

// While the disk is slow, requests are dropped and counted; none waits.
func TestNoRequestWaits(t *testing.T) {
	r, path, dropped := open(t, nil)
	var busy sync.WaitGroup
	const clients, each = 8, 500
	for c := range clients {
		busy.Go(func() {
			for i := range each {
				take(r, 0, fmt.Sprintf("client %d request %d", c, i))
			}
		})
	}
	busy.Wait()
	r.Close()
	_, rows := read(t, path)
	if got := len(rows) + int(dropped.Load()); got != clients*each || len(rows) == 0 {
		t.Errorf("got %d recorded and %d dropped, want %d in all", len(rows), dropped.Load(), clients*each)
	}
}

func TestAFullQueueDrops(t *testing.T) {
	dropped := 0
	r := &Recorder{
		o:       Options{Sample: 1, Random: func() uint64 { return 0 }, Dropped: func() { dropped++ }},
		waiting: make(chan *entry, 1), // and nobody who writes
	}
	r.entries.New = func() any { return new(entry) }
	take(r, 0, "x")
	take(r, 0, "y")
	if dropped != 1 {
		t.Errorf("%d requests dropped, want 1", dropped)
	}
}

// A file that fails costs requests of the recording, never the process, and is tried again.
func TestAFileThatFails(t *testing.T) {
	var now atomic.Int64
	clock := func() time.Time { return epoch.Add(time.Duration(now.Load())) }
	r, path, dropped := open(t, func(o *Options) { o.MaxSize, o.Now = 1, clock })
	dir := filepath.Dir(path)
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	take(r, 0, "x") // the file is full, and its directory is gone
	take(r, 0, "y")
	r.Close()
	if dropped.Load() != 2 {
		t.Errorf("%d requests dropped, want 2", dropped.Load())
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	_, err := Open(Options{Path: filepath.Join(t.TempDir(), "none", "x")})
	if err == nil || !strings.Contains(err.Error(), "choose a file") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
}

func TestNilRecorder(*testing.T) {
	var r *Recorder
	take(r, 0, "x")
	r.Close()
}

const goodHeader = `{"warmpath_recording":1,"endpoint":"e","step":256,"sample":1}` + "\n"

func TestBadRecordings(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"empty", "", "line 1: is empty"},
		{"not JSON", "hello\n", "line 1: is not JSON"},
		{"another file", `{"timestamp":1}` + "\n", "line 1: is not the header"},
		{"newer", `{"warmpath_recording":2,"step":256}` + "\n", "line 1: is not the header"},
		{"bad row", goodHeader + "{]\n{}\n", "line 2: is not JSON"},
		{"chain too short", goodHeader + `{"characters":300,"chain":"AAAAAAAAAAA="}` + "\n", "line 2: its numbers"},
		{"cut off", goodHeader + "{}\n" + `{"at_ms":1`, "EOF"},
	}
	for _, test := range tests {
		r, err := NewReader(strings.NewReader(test.text))
		for err == nil {
			_, err = r.Next()
		}
		if !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want %q", test.name, err, test.want)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(goodHeader + `{"at_ms":1.5,"characters":256,"chain":"AAAAAAAAAAA="}` + "\n"))
	f.Add([]byte(goodHeader + `{"at_ms":-1,"bytes_in":3}` + "\n{"))
	f.Add([]byte(`{"warmpath_recording":1,"step":4}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := NewReader(bytes.NewReader(data))
		for err == nil {
			var row Row
			if row, err = r.Next(); err == nil && len(row.Links())*r.Header.Step < row.Characters {
				t.Fatalf("%d links for %d characters", len(row.Links()), row.Characters)
			}
		}
	})
}

// BenchmarkTake is what a recording costs the goroutine of a request.
func BenchmarkTake(b *testing.B) {
	for _, characters := range []int{2 << 10, 64 << 10} {
		b.Run(fmt.Sprint(characters), func(b *testing.B) {
			r := &Recorder{o: Options{Sample: 1, Random: func() uint64 { return 0 }}, waiting: make(chan *entry, 1)}
			r.entries.New = func() any { return new(entry) }
			body, err := prompt.Scan([]byte(`{"prompt":"`+strings.Repeat("word ", characters/5)+`"}`), prompt.ShapeCompletion)
			if err != nil {
				b.Fatal(err)
			}
			var rec telemetry.Request
			for b.Loop() {
				r.Take(&rec, func(dst []byte) []byte { return body.AppendText(dst, MaxCharacters, "") })
				r.entries.Put(<-r.waiting)
			}
		})
	}
}

// BenchmarkChain is what it costs the writer.
func BenchmarkChain(b *testing.B) {
	encoded := prompt.AppendBytes(nil, make([]byte, MaxCharacters), MaxCharacters, "")
	c := newChainer(make([]byte, 32))
	var chain []byte
	for b.Loop() {
		chain, _ = c.chain(chain[:0], encoded)
	}
}
