package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const procNet = "/proc/sys/net/"

// enableForwarding makes the node a router. The reverse path filter stays as it
// is; where it is strict, our own devices get the loose mode (looseRPFilter).
func (v *VSwitch) enableForwarding() error {
	err := v.ns.run(func() error {
		for _, scope := range []string{"all", "default"} {
			if readSysctl("ipv4/conf/"+scope+"/rp_filter") == "1" {
				v.strictRPFilter = true
			}
		}
		if err := ensureSysctl("ipv4/ip_forward", "1"); err != nil {
			return err
		}
		return forwardIPv6()
	})
	if err != nil {
		return fmt.Errorf("enabling IP forwarding: %w", err)
	}
	return nil
}

// forwardIPv6 does nothing where the kernel has no IPv6. A router ignores router
// advertisements, unless told otherwise: devices that accept them now have their
// addresses and default routes from there, and go on accepting them.
func forwardIPv6() error {
	const forwarding = "ipv6/conf/all/forwarding"
	if current := readSysctl(forwarding); current == "" || current == "1" {
		return nil
	}
	devices, err := filepath.Glob(procNet + "ipv6/conf/*/accept_ra")
	if err != nil {
		return err
	}
	for _, path := range devices {
		name := strings.TrimPrefix(path, procNet)
		if dev := filepath.Base(filepath.Dir(path)); dev == "all" || dev == "default" || dev == "lo" {
			continue
		}
		if readSysctl(name) == "1" {
			if err := ensureSysctl(name, "2"); err != nil {
				return err
			}
		}
	}
	return ensureSysctl(forwarding, "1")
}

// looseRPFilter prepares one of our devices in a namespace with strict reverse
// path filtering, where packets of pods with several interfaces would be dropped.
func (v *VSwitch) looseRPFilter(device string) error {
	if !v.strictRPFilter {
		return nil
	}
	return v.ns.run(func() error { return ensureSysctl("ipv4/conf/"+device+"/rp_filter", "2") })
}

// disableIPv6 keeps a device that only carries frames from speaking itself.
func (v *VSwitch) disableIPv6(devices ...string) error {
	return v.ns.run(func() error {
		for _, dev := range devices {
			name := "ipv6/conf/" + dev + "/disable_ipv6"
			if readSysctl(name) == "" {
				continue
			}
			if err := ensureSysctl(name, "1"); err != nil {
				return err
			}
		}
		return nil
	})
}

// readSysctl returns "" for what does not exist.
func readSysctl(name string) string {
	data, err := os.ReadFile(procNet + name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func ensureSysctl(name, value string) error {
	if readSysctl(name) == value {
		return nil
	}
	err := os.WriteFile(procNet+name, []byte(value), 0o644)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, errReadOnly) {
		return fmt.Errorf("setting net/%s to %s: %w: run as root with a writable /proc/sys, or set it on the host", name, value, err)
	}
	if err != nil {
		return fmt.Errorf("setting net/%s to %s: %w", name, value, err)
	}
	return nil
}
