package prompt

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// stepsOf copies the steps of an encoded prompt.
func stepsOf(encoded []byte, size int) (steps [][]byte, characters int) {
	for n, step := range Steps(encoded, size) {
		steps, characters = append(steps, bytes.Clone(step)), characters+n
	}
	return steps, characters
}

func textSteps(t testing.TB, body string, shape Shape) ([][]byte, int) {
	t.Helper()
	b, err := Scan([]byte(body), shape)
	if err != nil {
		t.Fatal(err)
	}
	return stepsOf(b.AppendText(nil, 20, ""), 4)
}

// agree is how many steps two prompts have in common.
func agree(a, b [][]byte) (n int) {
	for n < len(a) && n < len(b) && bytes.Equal(a[n], b[n]) {
		n++
	}
	return n
}

func TestStepsAgreeAsFarAsTheText(t *testing.T) {
	chat := func(texts ...string) string {
		return `{"messages":[{"content":"` + strings.Join(texts, `"},{"content":"`) + `"}]}`
	}
	long := strings.Repeat("a", 12)
	tests := []struct {
		name, a, b string
		want       int
	}{
		{"same", chat(long), chat(long), 3},
		{"one is longer", chat(long), chat(long + "bbbb"), 3},
		{"another end", chat(long + "b"), chat(long + "c"), 3},
		{"another beginning", chat("b" + long), chat("c" + long), 0},
		{"in the middle", chat("aaaaabaaa"), chat("aaaaacaaa"), 1},
		{"cut at another place", chat("aaaa", "bbbb"), chat("aaaabbbb"), 1},
		{"cut inside a step", chat("aa", "aa"), chat("aaaa"), 0},
		{"escapes", chat(`\u0061aaa`), chat("aaaa"), 1},
		{"wide characters", chat("éééé" + "x"), chat("éééé" + "y"), 1},
	}
	for _, test := range tests {
		a, _ := textSteps(t, test.a, ShapeChat)
		b, _ := textSteps(t, test.b, ShapeChat)
		if got := agree(a, b); got != test.want {
			t.Errorf("%s: got %d steps in common, want %d", test.name, got, test.want)
		}
	}
}

func TestStepsCountCharacters(t *testing.T) {
	tests := []struct {
		name, body string
		shape      Shape
		steps, all int
	}{
		{"nothing", `{"messages":[]}`, ShapeChat, 0, 0},
		{"part of a step", `{"prompt":"abc"}`, ShapeCompletion, 1, 3},
		{"whole steps", `{"prompt":"abcdefgh"}`, ShapeCompletion, 2, 8},
		{"limit", `{"prompt":"` + strings.Repeat("é", 30) + `"}`, ShapeCompletion, 5, 20},
		{"token ids", `{"prompt":[1,2,3]}`, ShapeCompletion, 3, 12},
		{"an image", `{"messages":[{"content":[{"type":"image_url"}]}]}`, ShapeChat, 1, 1},
	}
	for _, test := range tests {
		steps, all := textSteps(t, test.body, test.shape)
		if len(steps) != test.steps || all != test.all {
			t.Errorf("%s: got %d steps of %d characters, want %d of %d", test.name, len(steps), all, test.steps, test.all)
		}
	}
}

func TestStepsOfNativeBodies(t *testing.T) {
	a, n := stepsOf(AppendBytes(nil, []byte("aaaabbbb\xff\xffcc"), 10, ""), 4)
	b, _ := stepsOf(AppendBytes(nil, []byte("aaaabbbb\xff\xfe"), 100, ""), 4)
	if n != 10 || len(a) != 3 || agree(a, b) != 2 {
		t.Errorf("got %d bytes in %d steps, %d in common; want 10 in 3, 2 in common", n, len(a), agree(a, b))
	}
	if hinted, _ := stepsOf(AppendBytes(nil, []byte("aaaa"), 10, "x"), 4); agree(a, hinted) != 0 {
		t.Error("the hint id makes no difference")
	}
}

func TestStepsStopWhenAsked(t *testing.T) {
	encoded := AppendBytes(nil, make([]byte, 100), 100, "")
	for range Steps(encoded, 4) {
		break
	}
}

// FuzzSteps holds Steps against the keys: they agree as far as the keys do.
func FuzzSteps(f *testing.F) {
	for i, seed := range bodySeeds {
		f.Add([]byte(seed), []byte(bodySeeds[(i+1)%len(bodySeeds)]), uint8(i))
		f.Add([]byte(seed), []byte(seed), uint8(i))
	}
	f.Add([]byte(`{"prompt":["abcd","e"]}`), []byte(`{"prompt":["abcde"]}`), uint8(ShapeCompletion))
	f.Add([]byte(`{"prompt":["abcdefgh"]}`), []byte(`{"prompt":["abcdefg"]}`), uint8(ShapeCompletion))
	f.Fuzz(func(t *testing.T, first, second []byte, shape uint8) {
		const size, limit = 4, 64
		a, errA := Scan(first, Shape(shape%5))
		b, errB := Scan(second, Shape(shape%5))
		if errA != nil || errB != nil {
			return
		}
		stepsA, charactersA := stepsOf(a.AppendText(nil, limit, ""), size)
		stepsB, charactersB := stepsOf(b.AppendText(nil, limit, ""), size)
		common := agree(stepsA, stepsB)
		for n := 1; n*size <= min(charactersA, charactersB); n++ {
			keyA, _, _ := a.TextKey(n*size, "")
			keyB, _, _ := b.TextKey(n*size, "")
			if (keyA == keyB) != (n <= common) {
				t.Fatalf("%q and %q: keys of %d characters equal: %v; %d of %d and %d steps are",
					first, second, n*size, keyA == keyB, common, len(stepsA), len(stepsB))
			}
		}
		if slices.Equal(first, second) && common != len(stepsA) {
			t.Fatal("a prompt differs from itself")
		}
	})
}
