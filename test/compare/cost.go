package main

import (
	"context"

	"github.com/warmpath/warmpath/test/turns"
)

// sizes of the requests whose cost is measured; a prompt of 200 KB is about 50,000 tokens, and comes seldom so that it fills
// no router's cores.
var sizes = []struct {
	turns.Shape
	seldom float64
}{
	{turns.Shape{Name: "2 KB", Body: 2 << 10}, 1},
	{turns.Shape{Name: "200 KB", Body: 200 << 10}, 4},
}

// measureCost puts all routers in front of engines that answer at once. No router is spared its work by there being one replica only.
func (c *comparison) measureCost(ctx context.Context) error {
	var started turns.Processes
	defer started.Stop()
	var urls []string
	for range replicas {
		engine, err := started.Role("-role", turns.RoleEngine)
		if err != nil {
			return err
		}
		urls = append(urls, engine.URL)
	}
	floor, err := started.Role("-role", turns.RoleFloor, "-target", urls[0])
	if err != nil {
		return err
	}
	contenders := []turns.Contender{{Name: "direct", URL: urls[0]}, floor}
	for _, e := range c.entries {
		router, err := e.start(ctx, &started, urls, c.folder)
		if err != nil {
			return err
		}
		contenders = append(contenders, router)
	}
	for _, size := range sizes {
		say("cost at %s", size.Name)
		pace := c.pace
		pace.Rate /= size.seldom
		results, err := turns.Compete(ctx, contenders, size.Shape, pace)
		if err != nil {
			return err
		}
		direct := results[0].P50
		for i := range results {
			results[i].P50 -= direct
		}
		c.floor = append(c.floor, results[1])
		for i, e := range c.entries {
			e.cost = append(e.cost, results[i+2])
		}
	}
	return nil
}
