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
// The zero value is a machine that is not known: what depends on it is not checked.
type Machine struct {
	// MemoryMiB is the memory for VPP and all other processes: the machine's, or the limit of the
	// container.
	MemoryMiB int
	CPUs      int
	// TAPs: VPP can make TAPs here.
	TAPs bool
}

// ThisMachine asks the kernel. What a container sees of its limit depends on the version
// of the machine's cgroups.
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

// memoryMiB returns the memory by /proc/meminfo, or the lowest of the limits if any is lower.
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

// ringsOfPods is how many buffers the TAPs of as many pods hold as a node may have, with rings
// of the usual size.
const ringsOfPods = 250 * 256

// buffers, of 5.6 KiB each with ordinary pages, are a tenth of what the heap may take. With
// TAPs, whose rings are always full, there are more of them, up to a twentieth of the memory.
func (m Machine) buffers() int {
	n := max(m.heapMiB()*16, 8192)
	if !m.TAPs {
		return n
	}
	return max(n, min(n+ringsOfPods, m.MemoryMiB*9))
}
