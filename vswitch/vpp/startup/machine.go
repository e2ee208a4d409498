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

// ThisMachine asks the kernel.
func ThisMachine() Machine {
	m := Machine{MemoryMiB: 4096, CPUs: runtime.NumCPU()}
	if kib, err := memTotal("/proc/meminfo"); err == nil {
		m.MemoryMiB = kib >> 10
	}
	if limit, err := os.ReadFile("/sys/fs/cgroup/memory.max"); err == nil {
		if bytes, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil { // "max": no limit
			m.MemoryMiB = min(m.MemoryMiB, int(bytes>>20))
		}
	}
	return m
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
