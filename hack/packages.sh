#!/usr/bin/env bash
# Installs the Debian packages of the commands that are missing.
# Usage: packages.sh COMMAND:PACKAGE...
set -euo pipefail

missing=()
for pair in "$@"; do
	command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
[[ ${#missing[@]} -eq 0 ]] && exit 0

if [[ $(id -u) -ne 0 ]] || ! command -v apt-get >/dev/null; then
	echo "missing Debian packages: ${missing[*]} (install them, or run as root on Debian)" >&2
	exit 1
fi
echo "installing Debian packages: ${missing[*]}"
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null 2>&1 ||
	{ apt-get update -qq && apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null; }
