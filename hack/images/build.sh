#!/usr/bin/env bash
# Makes the container images: build.sh CACHE VPP ARCHITECTURE...
# VPP is a directory with VPP's packages, or empty: no image with VPP.
# Only what is committed decides what is in them; a changed tree is marked "dirty" in the version.
set -euo pipefail
cache=$(realpath -m "$1") vpp=${2:+$(realpath "$2")}; shift 2
cd "$(dirname "$0")/../.."

# A tag has no "+"; a checkout without tags has the commit as its version. Git by itself abbreviates the commit
# as the number of objects in the clone allows.
version=$(git describe --tags --always --dirty --abbrev=12 | tr + -)
revision=$(git rev-parse HEAD)
created=$(git log -1 --format=%ct)
ldflags="-s -w -buildid= -X github.com/contiv/contiv/internal/lib/version.Version=$version"
for arch in "$@"; do
	echo "building for $arch"
	mkdir -p "bin/images/programs/$arch"
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -buildvcs=false -ldflags "$ldflags" \
		-o "bin/images/programs/$arch/" ./cmd/contiv-agent ./cmd/contiv-calico-routes ./cmd/contiv-cni ./cmd/contiv-etcd ./cmd/contiv-init ./cmd/contiv-ksr ./cmd/contiv-stn ./cmd/contivctl
done
out=$PWD/bin/images
cd hack/images
go run . -binaries "$out/programs" -vpp "$vpp" -out "$out" -cache "$cache" -version "$version" -revision "$revision" -created "$created" -arch "$(IFS=,; echo "$*")"
