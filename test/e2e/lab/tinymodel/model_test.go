package tinymodel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"
)

func TestWriteIsRepeatableAndWhole(t *testing.T) {
	var first, second bytes.Buffer
	if err := errors.Join(Write(&first, Small), Write(&second, Small)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two files of one shape differ")
	}
	header := first.Bytes()[:24]
	if string(header[:4]) != "GGUF" || binary.LittleEndian.Uint32(header[4:]) != 3 {
		t.Errorf("header %q, want GGUF version 3", header[:8])
	}
	if got, want := binary.LittleEndian.Uint64(header[8:]), uint64(3+9*Small.Layers); got != want {
		t.Errorf("tensors: got %d, want %d", got, want)
	}
	data := 0
	for _, tensor := range Small.tensors() {
		data += aligned(tensor.bytes())
	}
	if first.Len()%ggufAlignment != 0 || first.Len() < data {
		t.Errorf("file of %d bytes, want a multiple of %d that holds %d of weights", first.Len(), ggufAlignment, data)
	}
}

func TestWriteRefusesImpossibleShapes(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Shape)
		want   string
	}{
		{"no layers", func(s *Shape) { s.Layers = 0 }, "at least 1"},
		{"odd width", func(s *Shape) { s.Width = 100 }, "multiples of 32"},
		{"odd heads", func(s *Shape) { s.Heads = 3 }, "heads must divide"},
		{"odd key heads", func(s *Shape) { s.Heads, s.KeyHeads = 4, 3 }, "heads must divide"},
	}
	for _, test := range tests {
		shape := Small
		test.change(&shape)
		if err := Write(&bytes.Buffer{}, shape); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteReportsAFullDisk(t *testing.T) {
	if err := Write(fullDisk{}, Small); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v, want no space", err)
	}
}

func TestVocabularyHoldsEveryByteOnce(t *testing.T) {
	words := vocabulary()
	if len(words) != tokens {
		t.Fatalf("got %d tokens, want %d", len(words), tokens)
	}
	seen := map[string]bool{}
	for _, word := range words {
		if seen[word] {
			t.Errorf("token %q twice", word)
		}
		seen[word] = true
	}
	for b, want := range map[byte]string{'a': "a", ' ': "\u0120", '\n': "\u010a", 0: "\u0100", 173: "\u0143", 255: "\u00ff"} {
		if words[b] != want {
			t.Errorf("byte %d: got %q, want %q", b, words[b], want)
		}
	}
}

func TestHalf(t *testing.T) {
	tests := map[float32]uint16{0: 0, 1: 0x3c00, 1.5: 0x3e00, 0.5: 0x3800, 65504: 0x7bff, 1.0 / (1 << 24): 1, 1.0 / (1 << 14): 0x0400, 0.1: 0x2e66}
	for in, want := range tests {
		if got := half(in); got != want {
			t.Errorf("half(%g): got %#04x, want %#04x", in, got, want)
		}
	}
}

func TestQuantizeKeepsWeightsWithinHalfAStep(t *testing.T) {
	var weights [blockWeights]float32
	for i := range weights {
		weights[i] = float32(math.Sin(float64(i)))
	}
	scale, quantized := quantize(weights)
	for i, q := range quantized {
		if diff := math.Abs(float64(weights[i] - scale*float32(q))); diff > float64(scale)*0.501 {
			t.Errorf("weight %d: off by %g, step %g", i, diff, scale)
		}
	}
	if scale, _ := quantize([blockWeights]float32{}); scale != 0 {
		t.Errorf("scale of zeros: got %g, want 0", scale)
	}
}
