package turns

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestStopEndsGrandchildren(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c := exec.Command("sh", "-c", "sleep 60 & echo started; wait")
	c.Stdout = w
	var started Processes
	if err := started.Run(c); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(r)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	started.Stop()
	if _, err := out.ReadByte(); !errors.Is(err, io.EOF) { // while one of them lives, it holds the other end
		t.Errorf("after Stop: %v, want the end of what they print", err)
	}
}

func TestCompeteEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Compete(ctx, []Contender{{Name: "nobody"}}, Shape{Body: 2 << 10}, Pace{Rate: 1, Round: time.Minute, Rounds: 3})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that of the context", err)
	}
}
