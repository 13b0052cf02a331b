#!/bin/sh
# Runs every fuzz target of the module, one after the other, for FUZZTIME (10s) each. The targets of a package share one program:
# `go test -fuzz` would link it anew for each. A count (500x) begins with the seeds alone, a time with all that was ever found.
set -eu
GO="${GO:-go}"
FUZZTIME="${FUZZTIME:-10s}"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
case $FUZZTIME in
*x) cache=$scratch/found ;;
*) cache=$("$GO" env GOCACHE)/fuzz ;; # where `go test -fuzz` keeps what it has found
esac

"$GO" list -f '{{.ImportPath}} {{.Dir}}' ./... >"$scratch/packages"
while read -r package dir; do
	targets=$(cat "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p')
	[ -n "$targets" ] || continue
	"$GO" test -c -fuzz . -o "$scratch/fuzz" "$package"
	for target in $targets; do
		echo "fuzz $package $target for $FUZZTIME"
		(cd "$dir" && "$scratch/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$FUZZTIME" -test.fuzzcachedir "$cache/$package")
	done
done <"$scratch/packages"
