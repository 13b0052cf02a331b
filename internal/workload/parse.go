package workload

import "errors"

// Parse returns the generator that a specification NAME[:option=value,...] describes.
func Parse(spec string, seed uint64) (Workload, error) {
	return nil, errors.New("workload: not parsed yet")
}
