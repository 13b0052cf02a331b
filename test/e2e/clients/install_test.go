//go:build e2eclients

package clients

import "testing"

type installed struct{ python, node, modules string }

func install(t *testing.T) installed {
	return installed{"/tmp/w/clients-try/v/bin/python", "node", "/tmp/w/try/node_modules"}
}

func (i installed) pythonClient(name string) []string { return []string{i.python, "clients.py", name} }
func (i installed) nodeClient() []string              { return []string{i.node, "openai.mjs", i.modules} }
func (i installed) goClient(name string) []string     { return []string{"false"} }
