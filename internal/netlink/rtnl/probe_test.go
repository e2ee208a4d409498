package rtnl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The probe agrees with making a device, and creates nothing, not even the policy rule of the first
// device.
func TestHasVRFDevices(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	made := exec.Command("unshare", "--net", "ip", "link", "add", "name", "probe", "type", "vrf", "table", "77").Run() == nil
	inNewNamespace(t, func(c *Conn) {
		before, err := c.Rules(unix.AF_INET)
		links, linksErr := c.Links() // some kinds have a device in each namespace
		if err := errors.Join(err, linksErr); err != nil {
			t.Error(err)
			return
		}
		for range 2 {
			if has, err := c.HasVRFDevices(); err != nil || has != made {
				t.Errorf("got %v, %v, want %v", has, err, made)
			}
		}
		after, err := c.Rules(unix.AF_INET)
		if err != nil || !slices.Equal(before, after) {
			t.Errorf("rules were %v and are %v, %v", before, after, err)
		}
		if now, err := c.Links(); err != nil || len(now) != len(links) {
			t.Errorf("devices were %v and are %v, %v", links, now, err)
		}
		for answer, want := range map[unix.Errno]bool{unix.EINVAL: true, unix.EOPNOTSUPP: false} {
			c.InjectFaults(func(string) error { return answer })
			if has, err := c.HasVRFDevices(); err != nil || has != want {
				t.Errorf("a kernel that answers %v: got %v, %v, want %v", answer, has, err, want)
			}
		}
		c.InjectFaults(func(string) error { return unix.EPERM })
		if _, err := c.HasVRFDevices(); err == nil {
			t.Error("a kernel that may not be asked is taken for one that lacks them")
		}
	})
}

// inNewNamespace calls fn with a connection to a new network namespace.
func inNewNamespace(t *testing.T, fn func(*Conn)) {
	t.Helper()
	err := Try(func(c *Conn) error {
		fn(c)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The probe finds the feature of recent kernels, and leaves nothing in this namespace.
func TestStoresAddressProtocol(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	before, err := netns.Get()
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	stores, err := StoresAddressProtocol()
	if err != nil {
		t.Fatal(err)
	}
	// Earlier kernels may have it; all from 5.18 on do.
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	if modern := err == nil && (major > 5 || major == 5 && minor >= 18); modern && !stores {
		t.Error("the probe misses a feature of this kernel")
	}
	c, err := New(before)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addrs, err := c.Addresses(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if a.Prefix.String() == "127.0.0.2/32" {
			t.Error("the address that was tried is in the namespace of the test")
		}
	}
}
