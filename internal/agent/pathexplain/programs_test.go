package pathexplain

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TCX programs are neither filters nor queueing disciplines.
func TestTCXPrograms(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making network namespaces takes root: run the test as root")
	}
	name := fmt.Sprintf("tcx%d", os.Getpid())
	t.Cleanup(func() { exec.Command("ip", "netns", "del", name).Run() })
	for _, line := range []string{"ip netns add " + name, "ip -n " + name + " link add eth0 type veth peer name far"} {
		if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	ns, err := namespace.Open("/var/run/netns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	requireDoubts := func(want ...string) {
		t.Helper()
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		if got := New(Options{}).programs(h, "eth0"); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if err := ns.Run(func() error {
		requireDoubts()
		attachTCX(t, "eth0")
		requireDoubts("packets may be dropped by a TCX program at device eth0, which is not evaluated: see `bpftool net show dev eth0`")
		requireNothingBehind(t, "eth0")
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// requireNothingBehind requires that the kernel writes only into the query.
func requireNothingBehind(t *testing.T, device string) {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	var q struct {
		programQuery
		behind [64]byte
	}
	q.device, q.side = uint32(link.Attrs().Index), unix.BPF_TCX_EGRESS
	if errno := q.ask(); errno != 0 || q.count != 1 || q.behind != [64]byte{} {
		t.Errorf("%v, %d programs; %x after the query", errno, q.count, q.behind)
	}
}

// attachTCX attaches a program that drops all packets sent by a device of the thread's network
// namespace.
func attachTCX(t *testing.T, device string) {
	t.Helper()
	link, err := netlink.LinkByName(device)
	if err != nil {
		t.Fatal(err)
	}
	instructions := []uint64{2<<32 | 0xb7, 0x95} // r0 = 2 (drop); exit
	license := []byte("GPL\x00")
	load := struct {
		kind, count   uint32
		code, license uintptr
		level, size   uint32
		log           uint64
	}{kind: unix.BPF_PROG_TYPE_SCHED_CLS, count: uint32(len(instructions)), code: uintptr(unsafe.Pointer(&instructions[0])), license: uintptr(unsafe.Pointer(&license[0]))}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&load)), unsafe.Sizeof(load))
	runtime.KeepAlive(instructions)
	runtime.KeepAlive(license)
	if errno != 0 {
		t.Fatalf("loading a program: %v", errno)
	}
	defer unix.Close(int(fd))
	attach := struct{ device, program, side, flags uint32 }{uint32(link.Attrs().Index), uint32(fd), unix.BPF_TCX_EGRESS, 0}
	if _, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_ATTACH, uintptr(unsafe.Pointer(&attach)), unsafe.Sizeof(attach)); errno != 0 {
		t.Skipf("this kernel has no TCX: %v", errno)
	}
}
