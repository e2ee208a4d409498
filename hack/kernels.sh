#!/usr/bin/env bash
# Unpacks stock kernels of Debian for hack/vm.sh, without installing them: kernels.sh DIRECTORY KERNEL...
#
# DIRECTORY/stable is the kernel of this Debian, DIRECTORY/backports the newest one that Debian
# offers for it. They stay until the directory is removed.
set -euo pipefail

mkdir -p "$1"
cd "$1"
shift
dir=$PWD
exec 9>lock
flock 9
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")

# The mirror that this machine's apt uses.
mirror=$(apt-get indextargets --format '$(REPO_URI)' "Release: $suite" "Component: main" "Created-By: Packages" | head -1)
[[ -n $mirror ]] || mirror=$(apt-get indextargets --format '$(REPO_URI)' | head -1)
keyring=$(ls /usr/share/keyrings/debian-archive-keyring.* | head -1)

apt() {
	apt-get -qq -o Dir::Etc::SourceList="$dir/$kernel.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$dir/lists-$kernel" \
		-o Dir::Cache="$dir/cache-$kernel" -o Debug::NoLocking=1 -o APT::Sandbox::User=root "$@"
}

for kernel in "$@"; do
	compgen -G "$kernel/boot/vmlinuz-*" >/dev/null && continue
	echo "downloading Debian's kernel ($kernel) into $PWD"
	case $kernel in
	stable) suites=("$suite" "$suite-updates") ;;
	backports) suites=("$suite-backports") ;;
	*) echo "unknown kernel $kernel: use stable or backports" >&2; exit 1 ;;
	esac
	for s in "${suites[@]}"; do echo "deb [signed-by=$keyring] $mirror $s main"; done >"$kernel.list"
	mkdir -p "lists-$kernel/partial" "cache-$kernel/archives/partial"
	apt update
	meta=linux-image-$(dpkg --print-architecture)
	# The package that the meta package depends on.
	package=$(apt-cache -o Dir::Etc::SourceList="$dir/$kernel.list" -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists="$dir/lists-$kernel" \
		-o Dir::Cache="$dir/cache-$kernel" show "$meta" | awk '$1 == "Depends:" { print $2; exit }')
	rm -rf download && mkdir download
	(cd download && apt download "$package")
	dpkg-deb --extract download/*.deb "$kernel"
	rm -rf download "$kernel.list" "lists-$kernel" "cache-$kernel"
done
