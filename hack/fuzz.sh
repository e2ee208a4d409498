#!/usr/bin/env bash
# Runs each fuzz target of the repository for a time. Minimising what is found is bounded: it
# would else take a minute for each input of interest, in which nothing new is tried.
# Usage: fuzz.sh TIME [PACKAGE...]
set -euo pipefail
cd "$(dirname "$0")/.."

time=$1
shift
failed=0
while IFS=: read -r file target; do
	package=./$(dirname "$file")
	[[ $# -eq 0 || " $* " == *" $package "* ]] || continue
	echo "$package $target"
	go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 2 "$package" || failed=1
done < <(git grep -oE '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' | sed 's/:func /:/')
exit $failed
