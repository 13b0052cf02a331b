#!/bin/sh
# Runs every fuzz target of the module, one after the other, for FUZZTIME (10s) each.
set -eu
GO="${GO:-go}"
FUZZTIME="${FUZZTIME:-10s}"

# `go test -list` prints the targets of a package, then one line "ok <package> <time>".
listing=$("$GO" test -list '^Fuzz' ./...)
printf '%s\n' "$listing" | awk '/^Fuzz/ {names[n++] = $1} $1 == "ok" {for (i = 0; i < n; i++) print $2, names[i]; n = 0}' |
while read -r package target; do
	echo "fuzz $package $target for $FUZZTIME"
	"$GO" test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" "$package" </dev/null
done
