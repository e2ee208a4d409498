package startup

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Machine is what VPP's memory is sized to.
type Machine struct {
	// MemoryMiB is what there is for VPP and all others: the machine's memory, or the
	// limit of the container.
	MemoryMiB int
	CPUs      int
}

// ThisMachine asks the kernel. What a container sees of its limit depends on the version
// of the machine's cgroups.
func ThisMachine() Machine {
	return Machine{
		MemoryMiB: memoryMiB("/proc/meminfo", "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"),
		CPUs:      runtime.NumCPU(),
	}
}

// memoryMiB returns the memory by /proc/meminfo, or the least of the limits that there are.
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

// heapMiB is an eighth of the memory, within what a node can need: VPP by itself takes
// 100 MiB, and more than 1 MiB for each pod. What is not needed is not taken.
func (m Machine) heapMiB() int { return min(max(m.MemoryMiB/8, minHeapMiB), 2048) }

// buffers, of 2.5 KiB each, are a sixteenth of what the heap may take.
func (m Machine) buffers() int { return min(max(m.heapMiB()/16*1024/5*2, 8192), 65536) }
