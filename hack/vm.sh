#!/bin/sh
# Runs a command on another kernel than this machine's, in a virtual machine:
#
#   hack/vm.sh DIR COMMAND...
#
# DIR has a kernel and its modules, as `apt-get download linux-image-...` and `dpkg -x`
# leave them. The machine sees this one's files; what it writes is lost, except in
# /tmp/vm, which is the directory VM_OUT if that is set. Needs qemu-system-x86, cpio,
# kmod and busybox-static (BUSYBOX: its path). VM_CPU: options for the processor. By
# default it is emulated, which is slow but works everywhere, and its clock counts
# instructions: what waits in there for a second gets as much done in it on a busy
# machine as on an idle one. VM_MEMORY: in MiB.
#
# The conformance suite of the kernel vswitch, with all kinds of devices:
#
#   go test -c -o /var/tmp/kernel.test ./internal/vswitch/kernel
#   cd internal/vswitch/kernel; ../../../hack/vm.sh DIR /var/tmp/kernel.test -test.v -test.run "Conformance/links|Bond|WireGuard"
set -eu
[ $# -ge 2 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
dir=$(realpath "$1"); shift
busybox=${BUSYBOX:-$(command -v busybox)}
kernel=$(ls "$dir"/boot/vmlinuz-* | tail -1)
modules=$dir/lib/modules/${kernel##*/vmlinuz-}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
out=${VM_OUT:-$work/out}
mkdir -p "$work/fs/bin" "$work/fs/m" "$out"
cp "$busybox" "$work/fs/bin/busybox"
[ -e "$modules/modules.dep" ] || depmod -b "$dir" "${kernel##*/vmlinuz-}"
# What the root file system needs, in the order in which it is loaded.
for m in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay; do
	for f in $(find "$modules/kernel" -name "$m.ko" -o -name "$m.ko.xz"); do
		case $f in *.xz) xz -dc "$f" >"$work/fs/m/$m.ko" ;; *) cp "$f" "$work/fs/m/$m.ko" ;; esac
		echo "$m" >>"$work/fs/m/order"
	done
done
{
	echo "cd $(pwd)"
	for word in "$@"; do printf "'%s' " "$(printf %s "$word" | sed "s/'/'\\\\''/g")"; done
	echo
} >"$out/command"
cat >"$work/fs/init" <<'INIT'
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /dev /proc /sys /low /up /new
$b mount -t devtmpfs dev /dev; $b mount -t proc proc /proc; $b mount -t sysfs sys /sys
for m in $($b cat /m/order); do $b insmod /m/$m.ko; done
o=trans=virtio,version=9p2000.L,msize=512000
$b mount -t 9p -o ro,cache=loose,$o root /low
$b mount -t tmpfs tmpfs /up; $b mkdir /up/up /up/work
$b mount -t overlay -o lowerdir=/low,upperdir=/up/up,workdir=/up/work root /new
$b mkdir -p /new/tmp/vm /new/lib/modules/$($b uname -r)
$b mount -t 9p -o $o out /new/tmp/vm
$b mount -t 9p -o ro,cache=loose,$o modules /new/lib/modules/$($b uname -r)
for d in dev proc sys; do $b mount --move /$d /new/$d; done
$b mkdir /new/dev/shm; for d in dev/shm run; do $b mount -t tmpfs tmpfs /new/$d; done; $b mkdir -p /new/run/netns
exec $b switch_root /new /bin/sh -c 'echo /sbin/modprobe >/proc/sys/kernel/modprobe; ip link set dev lo up
	export PATH=/usr/local/go/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
	sh /tmp/vm/command; echo $? >/tmp/vm/rc; sync; echo o >/proc/sysrq-trigger; sleep 10'
INIT
chmod +x "$work/fs/init"
(cd "$work/fs" && find . | cpio -o -H newc --quiet) >"$work/initrd"
share() { echo "-virtfs local,path=$1,mount_tag=$2,security_model=none,multidevs=remap$3"; }
# shellcheck disable=SC2046,SC2086
qemu-system-x86_64 ${VM_CPU:--accel tcg,thread=single -cpu max -icount shift=0} -m "${VM_MEMORY:-2048}" -nographic -no-reboot -nic none \
	-kernel "$kernel" -initrd "$work/initrd" -append "console=ttyS0 quiet loglevel=3 panic=1" \
	$(share / root ,readonly=on) $(share "$modules" modules ,readonly=on) $(share "$out" out "") </dev/null
exit "$(cat "$out/rc" 2>/dev/null || echo 1)"
