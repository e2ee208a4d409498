#!/usr/bin/env bash
# Builds the parts of Kubernetes that test/e2e runs, once per version: about eight minutes on two cores, later runs find them built.
# Usage: build.sh DIRECTORY RELEASE. RELEASE, such as 1.34, is a directory here with the go.mod of that version.
set -euo pipefail

out=$(realpath -m "$1")
here=$(realpath "$(dirname "$0")")
release=$2
if [[ ! -f $here/$release/go.mod ]]; then
	echo "Kubernetes $release cannot be built; one of these can: $(cd "$here" && echo 1.*)" >&2
	exit 1
fi
cd "$here/$release"
version=$(awk '{ sub(/^require /, "") } $1 == "k8s.io/kubernetes" && $2 ~ /^v/ { print $2; exit }' go.mod)
programs=(kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubectl kubelet)

# What would change the result; go.sum pins every dependency.
stamp="$version $(go env GOVERSION GOOS GOARCH | tr '\n' ' ')$(cat go.mod go.sum "$here/build.sh" | sha256sum | cut -d' ' -f1)"
[[ -f $out/stamp && $(<"$out/stamp") == "$stamp" ]] && exit 0

echo "building Kubernetes $version into $out (about eight minutes on two cores, once)"
mkdir -p "$out"
exec 9>"$out/lock"
flock 9
[[ -f $out/stamp && $(<"$out/stamp") == "$stamp" ]] && exit 0

IFS=. read -r major minor _ <<<"${version#v}"
v=k8s.io/component-base/version
ldflags="-s -w -X $v.gitVersion=$version -X $v.gitMajor=$major -X $v.gitMinor=$minor -X $v.gitTreeState=clean"
rm -f "$out/stamp"
if ! CGO_ENABLED=0 nice -n 19 go build -p "${E2E_BUILD_JOBS:-$(nproc)}" -trimpath -ldflags "$ldflags" -o "$out/" "${programs[@]/#/k8s.io/kubernetes/cmd/}"; then
	echo "Kubernetes $version could not be built, see above; it needs the module proxy ($(go env GOPROXY)) and 6 GB of disk for $out and $(go env GOCACHE)" >&2
	exit 1
fi
echo "$stamp" >"$out/stamp"
