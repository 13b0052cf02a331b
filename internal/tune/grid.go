package tune

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/warmpath/warmpath/internal/routing"
	"github.com/warmpath/warmpath/internal/simulate"
)

// The settings that are tried, over the whole of their ranges.
var (
	lengths    = []int{1024, 2048, 4096, 8192, 16384, 32768, 65536}
	thresholds = []int{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 512, 1024}
)

// The settings to begin with: far enough apart to be few, near enough for each valley to hold one.
var (
	firstLengths    = []int{1024, 4096, 16384, 65536}
	firstThresholds = []int{2, 8, 32, 128}
)

// tie is the share by which scores may differ and count as equal, and the same for hit rates, absolute: below it lies the chance of
// which replica a prefix belongs to.
const tie = 0.02

// settings are a point of the grid.
type settings struct{ length, threshold int }

// grid holds what was simulated.
type grid map[settings]Figures

// find gives the figures of a point. With a threshold that no replica has reached, every higher one gives the same run.
func (g grid) find(s settings) (Figures, bool) {
	if f, ok := g[s]; ok {
		return f, true
	}
	for _, lower := range thresholds {
		if lower >= s.threshold {
			break
		}
		if f, ok := g[settings{s.length, lower}]; ok && f.OverflowShare == 0 {
			return f, true
		}
	}
	return Figures{}, false
}

// best is the point with the lowest score. Of those that tie, and whose hit rate ties too, it has the shortest window, then the
// lowest threshold: a short window tells apart no more than it must, and a low threshold bounds what a hot prefix can do to its
// replica. A lower hit rate at the same latency is a cliff's edge.
func (g grid) best() settings {
	lowest := math.Inf(1)
	for _, f := range g {
		lowest = min(lowest, f.score())
	}
	var tied []settings
	highest := 0.0
	for s, f := range g {
		if f.score() <= lowest*(1+tie) {
			tied = append(tied, s)
			highest = max(highest, f.HitRate)
		}
	}
	tied = slices.DeleteFunc(tied, func(s settings) bool { return g[s].HitRate < highest-tie })
	return slices.MinFunc(tied, compareSettings)
}

func compareSettings(a, b settings) int {
	return cmp.Or(cmp.Compare(a.length, b.length), cmp.Compare(a.threshold, b.threshold))
}

func (g grid) cell(s settings) Cell {
	f, _ := g.find(s)
	return Cell{s.length, s.threshold, f}
}

// cells lists what is known, in order.
func (g grid) cells() []Cell {
	var list []Cell
	for _, s := range slices.SortedFunc(maps.Keys(g), compareSettings) {
		list = append(list, g.cell(s))
	}
	return list
}

// descend simulates a coarse grid and then, again and again, both lines through the best point and its neighbours, until there is no
// better one among them.
func (t *tuner) descend(ctx context.Context) (settings, error) {
	wanted := map[int][]int{}
	for _, length := range firstLengths {
		wanted[length] = firstThresholds
	}
	for {
		if err := t.fill(ctx, wanted); err != nil {
			return settings{}, err
		}
		best := t.grid.best()
		if wanted = t.missing(best); len(wanted) == 0 {
			return best, nil
		}
	}
}

// exhaust simulates the whole grid.
func (t *tuner) exhaust(ctx context.Context) (settings, error) {
	wanted := map[int][]int{}
	for _, length := range lengths {
		wanted[length] = thresholds
	}
	if err := t.fill(ctx, wanted); err != nil {
		return settings{}, err
	}
	return t.grid.best(), nil
}

// missing lists the points on both lines through s, and those diagonally beside it, whose figures are not known, by length.
func (t *tuner) missing(s settings) map[int][]int {
	wanted := map[int][]int{}
	row, column := slices.Index(lengths, s.length), slices.Index(thresholds, s.threshold)
	for i, length := range lengths {
		for j, threshold := range thresholds {
			beside := abs(i-row) <= 1 && abs(j-column) <= 1
			if _, known := t.grid.find(settings{length, threshold}); !known && (i == row || j == column || beside) {
				wanted[length] = append(wanted[length], threshold)
			}
		}
	}
	return wanted
}

func abs(n int) int { return max(n, -n) }

// fill simulates the thresholds of each length from the lowest on, and leaves out those that the ones before answer for.
func (t *tuner) fill(ctx context.Context, wanted map[int][]int) error {
	order := slices.Sorted(maps.Keys(wanted))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(wanted[b]), len(wanted[a])) })
	planned := 0
	for _, list := range wanted {
		planned += len(list)
	}
	t.progress.plan(planned)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.parallel)
	for _, length := range order {
		group.Go(func() error { return t.fillLength(ctx, length, wanted[length], &mu) })
	}
	return group.Wait()
}

// fillLength simulates thresholds in ascending order. mu guards the grid.
func (t *tuner) fillLength(ctx context.Context, length int, list []int, mu *sync.Mutex) error {
	for _, threshold := range list {
		point := settings{length, threshold}
		mu.Lock()
		f, known := t.grid.find(point)
		mu.Unlock()
		if known {
			t.progress.ended()
		} else {
			var err error
			f, err = t.simulate(ctx, at(t.workload, length), simulate.Strategy{
				Name: routing.NamePrefixAware, Options: routing.Options{PrefixLength: length, ConcurrencyThreshold: threshold},
			})
			if err != nil {
				return err
			}
		}
		mu.Lock()
		t.grid[point] = f
		mu.Unlock()
	}
	return nil
}

// each runs n independent simulations, several at once.
func (t *tuner) each(ctx context.Context, n int, one func(ctx context.Context, i int) error) error {
	t.progress.plan(n)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.parallel)
	for i := range n {
		group.Go(func() error { return one(ctx, i) })
	}
	return group.Wait()
}

// progress counts simulations.
type progress struct {
	mu      sync.Mutex
	done    int
	planned int
	told    func(ended, planned int)
}

func (p *progress) plan(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.planned += n
}

func (p *progress) ended() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done++
	if p.told != nil {
		p.told(p.done, p.planned)
	}
}
