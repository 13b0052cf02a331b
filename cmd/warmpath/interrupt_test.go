package main

import (
	"os"
	"syscall"
	"testing"
)

// TestTheSecondInterruptEndsTheProcess sends both without a pause: neither may be lost.
func TestTheSecondInterruptEndsTheProcess(t *testing.T) {
	codes := make(chan int, 1)
	ctx, stop := interruptible(func(code int) { codes <- code })
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := <-codes; code != 128+int(syscall.SIGTERM) {
		t.Errorf("got exit code %d, want %d", code, 128+int(syscall.SIGTERM))
	}
}
