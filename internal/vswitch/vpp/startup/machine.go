package startup

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine holds the sizes for VPP's memory. The zero value is an unknown machine, for which nothing
// is checked.
type Machine struct {
	// MemoryMiB is the memory of VPP and all other processes: the machine's, or the container's
	// limit.
	MemoryMiB int
	CPUs      int
	// TAPs: VPP can make TAPs here.
	TAPs bool
}

// ThisMachine reads the kernel. Which limits a container sees depends on the cgroup version.
func ThisMachine() Machine {
	return Machine{
		MemoryMiB: memoryMiB("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
		CPUs:      runtime.NumCPU(),
		TAPs:      exists("/dev/vhost-net"),
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// memoryMiB returns the memory in /proc/meminfo, or the lowest limit if it is lower.
func memoryMiB(meminfo string, limits ...string) int {
	mib := 4096
	if kib, err := memTotal(meminfo); err == nil {
		mib = kib >> 10
	}
	for _, file := range limits {
		limit, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil { // "max": no limit
			mib = min(mib, int(bytes>>20))
		}
	}
	return mib
}

func memTotal(file string) (kib int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "MemTotal: %d kB", &kib); err == nil {
			return kib, nil
		}
	}
	return 0, fmt.Errorf("%s has no MemTotal", file)
}

const minHeapMiB = 256

// heapMiB is an eighth of the memory, within a node's needs: VPP itself takes 100 MiB, and each pod
// more than 1 MiB. Unused memory is not allocated.
func (m Machine) heapMiB() int { return min(max(m.MemoryMiB/8, minHeapMiB), 2048) }

// ringsOfPods is the number of buffers in the TAP rings of the maximum number of pods.
const ringsOfPods = 250 * 256

// buffers, of 5.6 KiB each with ordinary pages, take a tenth of the heap's maximum. With TAPs,
// whose rings are always full, they take up to a twentieth of the memory.
func (m Machine) buffers() int {
	n := max(m.heapMiB()*16, 8192)
	if !m.TAPs {
		return n
	}
	return max(n, min(n+ringsOfPods, m.MemoryMiB*9))
}
