package tinymodel

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
)

// Numbers of the GGUF file format, version 3, and of the ggml tensor types.
const (
	ggufVersion   = 3
	ggufAlignment = 32

	kindUint32, kindInt32, kindFloat32, kindBool, kindString, kindArray = 4, 5, 6, 7, 8, 9

	tensorFloat32, tensorQ8 = 0, 8
)

// entry is one key of a file's metadata. The value is a bool, uint32, float32, string, []string or []int32.
type entry struct {
	key   string
	value any
}

// tensor is a matrix stored as Q8_0, or a vector stored as 32-bit floats when rows is 0.
type tensor struct {
	name    string
	rows    int
	columns int
	row     func(number int, weights []float32) // fills in one row; called in order, once each
}

func (t tensor) kind() uint32 {
	if t.rows == 0 {
		return tensorFloat32
	}
	return tensorQ8
}

// bytes is the stored size: Q8_0 takes a 2-byte scale and 32 bytes for 32 weights.
func (t tensor) bytes() int {
	if t.rows == 0 {
		return 4 * t.columns
	}
	return t.rows * t.columns / blockWeights * (2 + blockWeights)
}

// writer encodes little-endian values, counts them and keeps the first error.
type writer struct {
	to      *bufio.Writer
	written int
	err     error
}

func writeGGUF(w io.Writer, metadata []entry, tensors []tensor) error {
	out := &writer{to: bufio.NewWriter(w)}
	out.put([]byte("GGUF"), uint32(ggufVersion), uint64(len(tensors)), uint64(len(metadata)))
	for _, e := range metadata {
		out.text(e.key)
		out.value(e.value)
	}
	offset := 0
	for _, t := range tensors {
		out.describe(t, offset)
		offset += aligned(t.bytes())
	}
	out.pad()
	for _, t := range tensors {
		out.weights(t)
		out.pad()
	}
	if out.err == nil {
		out.err = out.to.Flush()
	}
	if out.err != nil {
		return fmt.Errorf("model file: %w", out.err)
	}
	return nil
}

func aligned(size int) int {
	return (size + ggufAlignment - 1) / ggufAlignment * ggufAlignment
}

func (w *writer) put(values ...any) {
	for _, v := range values {
		if w.err != nil {
			return
		}
		w.written += binary.Size(v)
		w.err = binary.Write(w.to, binary.LittleEndian, v)
	}
}

func (w *writer) text(s string) {
	w.put(uint64(len(s)), []byte(s))
}

func (w *writer) value(value any) {
	switch v := value.(type) {
	case uint32:
		w.put(uint32(kindUint32), v)
	case float32:
		w.put(uint32(kindFloat32), v)
	case bool:
		w.put(uint32(kindBool), v)
	case string:
		w.put(uint32(kindString))
		w.text(v)
	case []int32:
		w.put(uint32(kindArray), uint32(kindInt32), uint64(len(v)), v)
	case []string:
		w.put(uint32(kindArray), uint32(kindString), uint64(len(v)))
		for _, s := range v {
			w.text(s)
		}
	default:
		panic(fmt.Sprintf("metadata of type %T", value))
	}
}

// describe writes where a tensor stands. The innermost dimension comes first.
func (w *writer) describe(t tensor, offset int) {
	w.text(t.name)
	if t.rows == 0 {
		w.put(uint32(1), uint64(t.columns))
	} else {
		w.put(uint32(2), uint64(t.columns), uint64(t.rows))
	}
	w.put(t.kind(), uint64(offset))
}

func (w *writer) weights(t tensor) {
	row := make([]float32, t.columns)
	if t.rows == 0 {
		t.row(0, row)
		w.put(row)
		return
	}
	for number := range t.rows {
		t.row(number, row)
		for start := 0; start < len(row); start += blockWeights {
			scale, quantized := quantize([blockWeights]float32(row[start:]))
			w.put(half(scale), quantized)
		}
	}
}

func (w *writer) pad() {
	w.put(make([]byte, aligned(w.written)-w.written))
}

// quantize is ggml's Q8_0: 32 weights as multiples of one scale.
func quantize(weights [blockWeights]float32) (scale float32, quantized [blockWeights]int8) {
	for _, v := range weights {
		scale = max(scale, float32(math.Abs(float64(v)))/math.MaxInt8)
	}
	if scale == 0 {
		return 0, quantized
	}
	for i, v := range weights {
		quantized[i] = int8(math.Round(float64(v / scale)))
	}
	return scale, quantized
}

// half is IEEE 754 binary16 of a number from 0 to 65504, rounded half up, subnormals kept.
func half(f float32) uint16 {
	const smallestNormal = 1.0 / (1 << 14)
	if f < smallestNormal {
		return uint16(math.Round(float64(f) * (1 << 24)))
	}
	rounded := math.Float32bits(f) + 1<<12
	exponent := rounded>>23 - (127 - 15)
	return uint16(exponent<<10 | rounded>>13&0x3ff)
}
