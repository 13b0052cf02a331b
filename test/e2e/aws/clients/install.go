// Package clients installs clients that others wrote, for Python and for Node, into the user's cache.
package clients

import (
	"context"
	"crypto/sha256"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// lists name every package with its version.
//
//go:embed python/requirements.txt node/package.json node/package-lock.json
var lists embed.FS

var listNames = []string{"python/requirements.txt", "node/package.json", "node/package-lock.json"}

// Installed is where the clients are.
type Installed struct {
	Python, Node string // the interpreters
	Modules      string // Node's packages
}

// Install puts what the lists name into the cache, once for each version of the lists, and tells what it does if that takes a while.
func Install(ctx context.Context, tell func(format string, arguments ...any)) (Installed, error) {
	folder, err := cacheFolder(ctx)
	if err != nil {
		return Installed{}, err
	}
	bin := filepath.Join(folder, "python", "bin")
	i := Installed{Python: filepath.Join(bin, "python"), Node: filepath.Join(bin, "node"), Modules: filepath.Join(folder, "node", "node_modules")}
	// Written last, so that an interrupted installation is not taken for a whole one.
	installed := filepath.Join(folder, "installed")
	if _, err := os.Stat(installed); err == nil {
		return i, nil
	}
	tell("installing clients for Python and Node into %s", folder)
	if err := os.RemoveAll(folder); err != nil {
		return i, fmt.Errorf("clients: %w", err)
	}
	if err := os.CopyFS(folder, lists); err != nil {
		return i, fmt.Errorf("clients: %w", err)
	}
	npm := exec.CommandContext(ctx, filepath.Join(bin, "npm"), "ci", "--no-audit", "--no-fund", "--ignore-scripts")
	npm.Dir = filepath.Join(folder, "node")
	npm.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	for _, command := range []*exec.Cmd{
		exec.CommandContext(ctx, "python3", "-m", "venv", filepath.Join(folder, "python")),
		exec.CommandContext(ctx, i.Python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", filepath.Join(folder, listNames[0])),
		npm,
	} {
		if _, err := finish(command); err != nil {
			return i, err
		}
	}
	if err := os.WriteFile(installed, nil, 0o600); err != nil {
		return i, fmt.Errorf("clients: %w", err)
	}
	return i, nil
}

// cacheFolder is where the clients of these lists belong. Another list, Python or processor is another folder.
func cacheFolder(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("clients: cache folder: %w", err)
	}
	sum := sha256.New()
	for _, name := range listNames {
		text, err := lists.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("clients: %w", err)
		}
		sum.Write(text)
	}
	python, err := finish(exec.CommandContext(ctx, "python3", "-c", "import sys, platform; print('python%d.%d-%s' % (*sys.version_info[:2], platform.machine()))"))
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "warmpath", fmt.Sprintf("clients-%.6x-%s", sum.Sum(nil), python)), nil
}

// finish runs a command to its end and returns what it printed.
func finish(command *exec.Cmd) (string, error) {
	text, err := command.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(command.Args, " "), err, text)
	}
	return strings.TrimSpace(string(text)), nil
}
