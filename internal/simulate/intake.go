package simulate

import (
	"fmt"
	"sync"

	"github.com/warmpath/warmpath/internal/workload"
)

// intake reads a workload on a core of its own: writing, parsing and hashing text costs more than simulating what it asks for. It
// hands over exchanges in the order of the workload, so that nothing depends on how fast it is.
type intake struct {
	exchanges   chan *exchange // closed at the end
	blockTokens int            // of the workload; known with the first exchange
	textTokens  int            // the same, of text
	err         error          // why the workload ended early; known when exchanges is closed
	stop        chan struct{}
	reading     sync.WaitGroup
}

// ahead is how many exchanges may be ready before they are wanted.
const ahead = 256

// open begins to read w, whose requests get what the router's strategy goes by. Text has blocks of textTokens.
func open(w workload.Workload, r *router, textTokens int) *intake {
	in := &intake{exchanges: make(chan *exchange, ahead), textTokens: textTokens, stop: make(chan struct{})}
	in.reading.Go(func() {
		defer close(in.exchanges)
		in.err = in.read(w, r)
	})
	return in
}

// close ends the reading, at the latest with the next request.
func (in *intake) close() {
	close(in.stop)
	in.reading.Wait()
}

func (in *intake) read(w workload.Workload, to *router) error {
	for r := range w.Requests() {
		if in.blockTokens == 0 {
			in.blockTokens = in.textTokens
			if r.Blocks != nil {
				in.blockTokens = r.BlockTokens
			}
		}
		if r.Blocks != nil && r.BlockTokens != in.blockTokens {
			return fmt.Errorf("workload: it has blocks of %d tokens and of %d; simulate them apart", in.blockTokens, r.BlockTokens)
		}
		x := newExchange(&r, in.blockTokens)
		if to.prefixLength > 0 {
			x.query.Key, x.query.HasKey = Key(&r, to.prefixLength)
		}
		if to.chained {
			x.query.Chain, x.query.Streamed = Chain(nil, &r), to.streamed
			if to.wordiness > 0 {
				x.query.Chain = reword(x.query.Chain, to.wordiness)
			}
		}
		select {
		case in.exchanges <- x:
		case <-in.stop:
			return nil
		}
	}
	return w.Err()
}
