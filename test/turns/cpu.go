package turns

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockTick is the unit of /proc/PID/stat, 1/100 s on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuOf is the CPU time that a process and all that it has started have used, 0 if it cannot be told.
func cpuOf(pid int) time.Duration {
	stats := readStats()
	var used time.Duration
	for _, p := range tree(stats, pid) {
		used += stats[p].cpu
	}
	return used
}

// tree is a process and its descendants. A pid of 0 has none.
func tree(stats map[int]stat, pid int) []int {
	if _, runs := stats[pid]; !runs {
		return nil
	}
	all := []int{pid}
	for child, s := range stats {
		if s.parent == pid {
			all = append(all, tree(stats, child)...)
		}
	}
	return all
}

// stat is what is wanted of /proc/PID/stat.
type stat struct {
	parent int
	cpu    time.Duration // user and system
}

// readStats reads those of all processes; it is empty where there is no /proc.
func readStats() map[int]stat {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	stats := make(map[int]stat, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		_, fields, ok := strings.Cut(string(text), ") ") // the name before it may hold spaces
		f := strings.Fields(fields)
		if !ok || len(f) < 13 {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent, _ := strconv.Atoi(f[1])
		user, _ := strconv.Atoi(f[11])
		system, _ := strconv.Atoi(f[12])
		stats[pid] = stat{parent: parent, cpu: time.Duration(user+system) * clockTick}
	}
	return stats
}
