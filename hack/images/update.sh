#!/usr/bin/env bash
# Writes packages.lock with the newest Debian packages: update.sh CACHE ARCHITECTURE...
set -euo pipefail
cache=$(realpath -m "$1"); shift
cd "$(dirname "$0")"
go run . -update -cache "$cache" -arch "$(IFS=,; echo "$*")"
git --no-pager diff --stat -- packages.lock
