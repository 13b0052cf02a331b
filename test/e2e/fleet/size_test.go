//go:build e2e

package fleet

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

const mib = 1 << 20

// rss is a process's resident memory in bytes, from /proc; 0 where there is none.
func rss(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}

func TestStartAndSize(t *testing.T) {
	engines := startEngines(t, 4)
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := startRouter(t, configuration("PREFIX_AWARE", engines...))
	took := time.Since(began)
	pause(2 * time.Second) // of probes
	idle := rss(t, r.Process.Pid)
	t.Logf("binary %.1f MiB, ready after %s, idle RSS %.1f MiB", float64(info.Size())/mib, took.Round(time.Millisecond), float64(idle)/mib)
	if info.Size() >= 45e6 {
		t.Errorf("the binary has %d bytes, want less than 45 MB", info.Size())
	}
	if idle >= 60e6 {
		t.Errorf("idle RSS is %d bytes, want less than 60 MB", idle)
	}
}
