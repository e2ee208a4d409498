#!/usr/bin/env bash
# Builds containerd, its client ctr, its shim, runc and CNI plugins for test/e2e: about three minutes on two cores, once; go finds later that nothing has changed.
# Usage: build.sh DIRECTORY PACKAGES. PACKAGES is the directory of hack/kubernetes/packages.sh, which has libseccomp.
set -euo pipefail

out=$(realpath -m "$1")
packages=$(realpath "$2")
cd "$(dirname "$0")"
version() { awk -v module="$1" '{ sub(/^require /, "") } $1 == module && $2 ~ /^v/ { print $2; exit }' go.mod; }
containerd=$(version github.com/containerd/containerd/v2)
runc=$(version github.com/opencontainers/runc)
[[ -x $out/runc ]] || echo "building containerd $containerd and runc $runc into $out (about three minutes on two cores, once)"
mkdir -p "$out/cni"

build() { nice -n 19 go build -trimpath "$@"; }
failed() {
	echo "$1 could not be built, see above; it needs the module proxy ($(go env GOPROXY))$2" >&2
	exit 1
}
# Only what the CRI plugin needs: other snapshotters are left out.
v=github.com/containerd/containerd/v2/version
commands=github.com/containerd/containerd/v2/cmd
CGO_ENABLED=0 build -tags no_btrfs,no_devmapper,no_zfs -ldflags "-s -w -X $v.Version=$containerd" -o "$out/" \
	$commands/containerd $commands/containerd-shim-runc-v2 $commands/ctr || failed "containerd $containerd" ""
CGO_ENABLED=0 build -ldflags '-s -w' -o "$out/cni/" github.com/containernetworking/plugins/plugins/{main/loopback,meta/bandwidth} ||
	failed "the CNI plugins" ""
# runc enters namespaces in C, before Go starts threads. It is static so that it needs no library. libseccomp is not installed, so the flags name it
# in place of pkg-config.
export CGO_CFLAGS="-I$packages/usr/include"
CGO_LDFLAGS="-L$(dirname "$(find "$packages/usr/lib" -name libseccomp.a)") -lseccomp"
export CGO_LDFLAGS
PKG_CONFIG=true CGO_ENABLED=1 build -tags seccomp,urfave_cli_no_docs,netgo,osusergo -ldflags "-s -w -extldflags -static -X main.version=${runc#v}" -o "$out/" github.com/opencontainers/runc ||
	failed "runc $runc" ", gcc and the C library (Debian: build-essential)"
