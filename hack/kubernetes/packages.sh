#!/usr/bin/env bash
# Unpacks the Debian packages that test/e2e needs, without installing them.
# Usage: packages.sh DIRECTORY
set -euo pipefail

packages=(busybox libseccomp-dev)
programs=(bin/busybox)
files=("${programs[@]}" usr/include/seccomp.h)

mkdir -p "$1"
cd "$1"
missing=0
for file in "${files[@]}"; do
	[[ -e $file ]] || missing=1
done
if [[ $missing -eq 1 ]]; then
	echo "unpacking Debian packages into $1: ${packages[*]}"
	rm -rf download && mkdir download
	if ! (cd download && { apt-get download -qq "${packages[@]}" 2>/dev/null || { apt-get update -qq && apt-get download -qq "${packages[@]}"; }; }); then
		echo "the Debian packages could not be downloaded: ${packages[*]}" >&2
		exit 1
	fi
	for package in download/*.deb; do
		dpkg-deb --extract "$package" .
	done
	rm -rf download
fi
for program in "${programs[@]}"; do
	if lacks=$(ldd "$program" 2>/dev/null | grep 'not found'); then
		echo "$program lacks a library, install its Debian package: $lacks" >&2
		exit 1
	fi
done
