// Command mkmodel writes the tiny model of the real-engine tests to the file it is given.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/warmpath/warmpath/test/e2e/lab/tinymodel"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: mkmodel FILE.gguf")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(tinymodel.Write(file, tinymodel.Small), file.Close())
}
