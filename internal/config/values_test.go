package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

func TestDuration(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want time.Duration
		text string
	}{
		{"0", 0, "0s"},
		{"0s", 0, "0s"},
		{"250ms", 250 * time.Millisecond, "250ms"},
		{"10m", 10 * time.Minute, "10m"},
		{"90s", 90 * time.Second, "1m30s"},
		{"1h", time.Hour, "1h"},
		{"1h0m5s", time.Hour + 5*time.Second, "1h0m5s"},
	} {
		var got Duration
		if err := got.UnmarshalText([]byte(tc.in)); err != nil || time.Duration(got) != tc.want || got.String() != tc.text {
			t.Errorf("%q = %v, %v, want %v", tc.in, got, err, tc.text)
		}
	}
	for _, in := range []string{"", "10", "ten", "-1s", "1d", "10 s", "99999999h"} {
		var got Duration
		if err := got.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q = %v, want an error", in, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Bytes
		text string
	}{
		{"0", 0, "0"},
		{"1048576", 1 << 20, "1MiB"},
		{"64MiB", 64 << 20, "64MiB"},
		{"64 mib", 64 << 20, "64MiB"},
		{"1GB", 1e9, "1GB"},
		{"1kB", 1000, "1kB"},
		{"1001B", 1001, "1001"},
		{"8388607TiB", 8388607 << 40, "8388607TiB"},
	} {
		var got Bytes
		if err := got.UnmarshalText([]byte(tc.in)); err != nil || got != tc.want || got.String() != tc.text {
			t.Errorf("%q = %v, %v, want %v", tc.in, got, err, tc.text)
		}
	}
	for _, in := range []string{"", "MiB", "-1", "1.5GB", "64XB", "64M", "1_000", "8388608TiB", "99999999999999999999"} {
		var got Bytes
		if err := got.UnmarshalText([]byte(in)); err == nil {
			t.Errorf("%q = %v, want an error", in, got)
		}
	}
}

func TestBytesAndDurationRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := Bytes(rapid.Int64Min(0).Draw(t, "size"))
		var gotSize Bytes
		if err := gotSize.UnmarshalText([]byte(size.String())); err != nil || gotSize != size {
			t.Fatalf("%d written as %q reads %d, %v", size, size, gotSize, err)
		}
		length := Duration(rapid.Int64Min(0).Draw(t, "length"))
		var gotLength Duration
		if err := gotLength.UnmarshalText([]byte(length.String())); err != nil || gotLength != length {
			t.Fatalf("%d written as %q reads %d, %v", length, length, gotLength, err)
		}
	})
}

func TestSecretIsNeverPrinted(t *testing.T) {
	secret := NewSecret("hunter2")
	holder := struct {
		Exported   Secret
		unexported Secret
		Pointer    *Secret
	}{secret, secret, &secret}
	pool := Pool{APIKey: secret}

	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "secret", secret, "pool", pool, "holder", holder)
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "secret", secret, "pool", pool, "holder", holder)
	outputs := []string{log.String(), fmt.Sprint(secret, holder, pool)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p", "%T", "%10s"} {
		outputs = append(outputs, fmt.Sprintf(verb+verb+verb, secret, holder, pool))
	}
	asJSON, err := json.Marshal(map[string]any{"secret": secret, "pool": pool})
	if err != nil {
		t.Fatal(err)
	}
	asYAML, err := yaml.Dump(map[string]any{"secret": secret, "pool": pool})
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range append(outputs, string(asJSON), string(asYAML)) {
		if strings.Contains(out, "hunter2") || strings.Contains(out, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("a secret was printed: %s", out)
		}
	}
	if !strings.Contains(string(asJSON), redacted) {
		t.Errorf("JSON is %s, want it to say that a secret is set", asJSON)
	}
	if secret.Reveal() != "hunter2" || !secret.Equal(NewSecret("hunter2")) || secret.Equal(Secret{}) || NewSecret("") != (Secret{}) {
		t.Error("the secret is lost, or does not equal itself")
	}
}

func TestExpand(t *testing.T) {
	env := fakeEnv{"A": "value", "EMPTY": "", "NESTED": "${A}", "YAML": "x: [1, 2]"}
	for _, tc := range []struct{ name, in, want string }{
		{"no reference", "plain", "plain"},
		{"variable", "${A}", "value"},
		{"inside text", "http://${A}:80/", "http://value:80/"},
		{"twice", "${A}${A}", "valuevalue"},
		{"empty variable", "${EMPTY}", ""},
		{"default of an unset one", "${NONE:-fallback}", "fallback"},
		{"default of an empty one", "${EMPTY:-fallback}", "fallback"},
		{"empty default", "${NONE:-}", ""},
		{"default unused", "${A:-fallback}", "value"},
		{"default with a dash", "${NONE:-a:-b}", "a:-b"},
		{"dollar sign", "a$$b", "a$b"},
		{"escaped reference", "$${A}", "${A}"},
		{"three", "$$${A}", "$value"},
		{"lone dollar sign", "pa$word $", "pa$word $"},
		{"values are not expanded again", "${NESTED}", "${A}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := expand(tc.in, env.lookUp)
			if err != nil || got != tc.want {
				t.Errorf("expand(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
		})
	}
	for _, tc := range []struct{ name, in, want string }{
		{"unset", "${NONE}", "NONE is not set"},
		{"not closed", "a${A", "without }"},
		{"no name", "${}", "valid variable name"},
		{"not a name", "${A B}", "valid variable name"},
		{"other operator", "${A:?no}", "valid variable name"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := expand(tc.in, env.lookUp)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("expand(%q) = %q, %v, want an error with %q", tc.in, got, err, tc.want)
			}
		})
	}
}

// fakeEnv is an environment.
type fakeEnv map[string]string

func (e fakeEnv) lookUp(name string) (string, bool) {
	value, ok := e[name]
	return value, ok
}
