package main

import (
	"bytes"
	"context"
)

// runCommand runs `warmpath name` with those arguments, and gives what it printed.
func runCommand(ctx context.Context, name string, args []string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	root := newRootCommand()
	root.SetOut(&out)
	root.SetErr(&errs)
	root.SetArgs(append([]string{name}, args...))
	err = root.ExecuteContext(ctx)
	return out.String(), errs.String(), err
}
