package interfaces

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/hostdev"
)

// Detecting that the far end of a TAP is gone: it may have any name in any namespace, and VPP does
// not notice its removal. But VPP's file descriptor then refers to no device (/proc/PID/fdinfo),
// and VPP's CLI maps file descriptors to TAPs.

// deadTaps returns the TAPs, by VPP's names, whose far ends are gone; none if unknown.
func (v *Interfaces) deadTaps(ctx context.Context) map[string]bool {
	h, err := hostdev.Of(v.vpp)
	if err != nil || h == nil {
		return nil
	}
	defer h.Close()
	files := detachedTunFiles(h.Pid)
	if len(files) == 0 {
		return nil
	}
	text, err := v.vpp.CLI(ctx, "show tap")
	if err != nil {
		v.log.Warn("Finding TAPs without a peer failed", "error", err)
		return nil
	}
	dead := map[string]bool{}
	for tap, fds := range tapFiles(text) {
		for _, fd := range fds {
			if files[fd] {
				dead[tap] = true
			}
		}
	}
	return dead
}

// detachedTunFiles returns a process's open files whose TAP or TUN was removed.
func detachedTunFiles(pid int) map[int]bool {
	dir := fmt.Sprintf("/proc/%d", pid)
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		return nil
	}
	detached := map[int]bool{}
	for _, e := range entries {
		if path, err := os.Readlink(filepath.Join(dir, "fd", e.Name())); err != nil || path != "/dev/net/tun" {
			continue
		}
		info, err := os.ReadFile(filepath.Join(dir, "fdinfo", e.Name()))
		if err != nil {
			continue
		}
		_, device, ok := strings.Cut(string(info), "iff:")
		device, _, _ = strings.Cut(strings.TrimLeft(device, "\t "), "\n")
		if fd, err := strconv.Atoi(e.Name()); ok && err == nil && device == "" {
			detached[fd] = true
		}
	}
	return detached
}

// tapFiles parses the files of each TAP from `show tap`.
func tapFiles(text string) map[string][]int {
	files := map[string][]int{}
	tap := ""
	for line := range strings.Lines(text) {
		switch fields := strings.Fields(line); {
		case len(fields) > 1 && fields[0] == "Interface:":
			tap = fields[1]
		case len(fields) > 1 && fields[0] == "tap-fds":
			for _, field := range fields[1:] {
				if fd, err := strconv.Atoi(field); err == nil {
					files[tap] = append(files[tap], fd)
				}
			}
		}
	}
	return files
}
