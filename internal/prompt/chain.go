package prompt

import (
	"encoding/binary"
	"sync"

	"github.com/zeebo/xxh3"
)

// BlockBytes is the length of a block of the canonical prompt in bytes, about 64
// tokens of English text: four blocks of vLLM's default size.
const BlockBytes = 256

// maxBlocks bounds a chain: 4 MiB of prompt, about a million tokens, which is
// more than engines take.
const maxBlocks = 16_384

// Chain is a prompt as KV_AWARE sees it: the canonical prompt (canonical.go) cut
// into blocks, each identified together with all that stands before it. Two
// prompts have equal hashes exactly as far as their leading blocks are the same,
// for the same model, adapter and salt.
type Chain struct {
	// Blocks are the chained hashes of the full blocks, at most 16,384.
	Blocks []uint64
	// Bytes is the length of the whole canonical prompt, the last block that is
	// not full and what lies beyond Blocks included.
	Bytes int
}

// Chain computes the block chain of the whole prompt; its Blocks use dst's memory
// as far as it reaches. model is the name sent to the engine, which may differ
// from the body's. Escapes make no difference, nor does text that stands in one
// text part instead of a string. Under ShapeNone the chain is empty.
//
// Of a batch of several prompts (/v1/completions) it is the chain of the first:
// engines run them as separate sequences, which share no more than what they
// begin with, so that a chain over all of them would match nothing.
//
// Nothing is allocated in steady state. Safe for concurrent use.
func (b *Body) Chain(dst []uint64, model string) Chain {
	c := newChainer(dst)
	defer c.release()
	c.hash = c.seed(b, model)
	c.prompt(b)
	return c.chain()
}

// BytesChain is the chain of a native body (SageMaker's /invocations), into which
// routing does not look: its blocks are those of the raw bytes. dst is used as by
// Body.Chain.
func BytesChain(dst []uint64, raw []byte) Chain {
	c := newChainer(dst)
	defer c.release()
	c.hash = keySeed
	c.write(raw)
	return c.chain()
}

// chainer hashes a canonical prompt block by block while it is written.
type chainer struct {
	blocks  []uint64
	hash    uint64 // of all blocks so far; the seed at first
	bytes   int    // written so far
	partial []byte // the block that is not full yet
	scratch []byte // what is about to be written and does not stand in the body
	inPart  bool   // what is written belongs to a part of a content
}

var chainers = sync.Pool{New: func() any {
	return &chainer{partial: make([]byte, 0, BlockBytes), scratch: make([]byte, 0, 2*BlockBytes)}
}}

func newChainer(dst []uint64) *chainer {
	c := chainers.Get().(*chainer)
	c.blocks, c.bytes, c.partial, c.inPart = dst[:0], 0, c.partial[:0], false
	return c
}

// release gives the chainer back, without the memory of its caller.
func (c *chainer) release() {
	c.blocks = nil
	chainers.Put(c)
}

func (c *chainer) chain() Chain { return Chain{Blocks: c.blocks, Bytes: c.bytes} }

// seed is what the chain starts from: the hash of the model and of the values of
// seedFields, each behind its number and length.
func (c *chainer) seed(b *Body, model string) uint64 {
	buf := append(appendLength(c.scratch[:0], 0, len(model)), model...)
	for i, at := range b.seeds {
		v := b.at(at)
		if v.isNull() {
			continue
		}
		start := len(buf)
		buf = appendLength(buf, byte(i+1), 0)
		text := len(buf)
		if v.isString() {
			buf, _ = appendText(buf, v[1:len(v)-1], len(v))
		} else {
			buf = append(buf, v...)
		}
		binary.LittleEndian.PutUint64(buf[start+1:], uint64(len(buf)-text))
	}
	return xxh3.HashSeed(buf, keySeed)
}

func appendLength(dst []byte, tag byte, n int) []byte {
	return binary.LittleEndian.AppendUint64(append(dst, tag), uint64(n))
}

// write adds bytes of the canonical prompt. Full blocks are hashed where they stand.
func (c *chainer) write(p []byte) {
	c.bytes += len(p)
	if len(c.partial) > 0 {
		n := min(BlockBytes-len(c.partial), len(p))
		c.partial = append(c.partial, p[:n]...)
		p = p[n:]
		if len(c.partial) < BlockBytes {
			return
		}
		c.block(c.partial)
		c.partial = c.partial[:0]
	}
	for len(p) >= BlockBytes {
		c.block(p[:BlockBytes])
		p = p[BlockBytes:]
	}
	c.partial = append(c.partial, p...)
}

// block chains one block to those before it. The block's own hash is unseeded:
// XXH3 would derive a secret from a seed anew for every block.
func (c *chainer) block(b []byte) {
	if len(c.blocks) == maxBlocks {
		return
	}
	c.hash = mix(c.hash + xxh3.Hash(b))
	c.blocks = append(c.blocks, c.hash)
}

// mix is a bijection in which every bit of x changes about half the bits of the
// result: the finalizer of MurmurHash3 (A. Appleby, public domain).
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
