package rtnl

import (
	"fmt"
	"os"
	"testing"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// The probe finds what recent kernels have, and leaves nothing in this namespace.
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
	// Kernels may have it earlier, none from 5.18 on lacks it.
	var name unix.Utsname
	var major, minor int
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	_, err = fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor)
	if modern := err == nil && (major > 5 || major == 5 && minor >= 18); modern && !stores {
		t.Error("the probe denies what this kernel has")
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
