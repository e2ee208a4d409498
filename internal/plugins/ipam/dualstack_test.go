package ipam_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
)

// dualStack has many IPv6 addresses for pods, but only 4 IPv4 addresses.
func dualStack() contivconf.Subnets {
	s, second := subnets("10.1.0.0/16", 29, "172.30.0.0/16", 24, "", "192.168.30.0/24"), subnets("fd10::/48", 64, "fd17::/48", 64, "", "fd30::/112")
	s.Second = &second
	return s
}

func (n *node) ips(name string) string { return fmt.Sprint(n.ipam.GetPodIPs(id(name))) }

func TestDualStackPodsHaveTwoAddresses(t *testing.T) {
	n := start(t, dualStack(), 1)
	n.mustAdd(t, "a", "10.1.0.10")
	n.mustAdd(t, "b", "10.1.0.11")
	want := "[10.1.0.11 fd10:0:0:1::3]"
	if got := n.ips("b"); got != want {
		t.Errorf("addresses: %s, want %s", got, want)
	}
	n.restart(t)
	if got := n.ips("b"); got != want {
		t.Errorf("addresses after a restart: %s, want %s", got, want)
	}
	n.mustAdd(t, "c", "10.1.0.12")
	if got := n.ips("c"); got != "[10.1.0.12 fd10:0:0:1::4]" {
		t.Errorf("addresses: %s", got)
	}
}

func TestDualStackPodIsRefusedIfOneVersionIsExhausted(t *testing.T) {
	n := start(t, dualStack(), 1)
	for _, name := range []string{"a", "b", "c", "d"} {
		if _, err := n.add(name); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := n.add("e"); !errors.Is(err, ipam.ErrExhausted) || !strings.Contains(err.Error(), "10.1.0.8/29") {
		t.Errorf("pod without address: %v", err)
	}
	if got := n.ips("e"); got != "[]" {
		t.Errorf("the refused pod holds %s", got)
	}
	if used, capacity := n.ipam.Usage(); used != 4 || capacity != 4 {
		t.Errorf("usage: %d of %d", used, capacity)
	}
}

func TestBothAddressesAreLearnedFromKubernetes(t *testing.T) {
	web := kubePod("web", "10.1.0.12")
	web.IpAddresses = []string{"10.1.0.12", "fd10:0:0:1::77"}
	n := start(t, dualStack(), 1, web)
	if got := n.ips("web"); got != "[10.1.0.12 fd10:0:0:1::77]" {
		t.Errorf("learned: %s", got)
	}
	n.mustAdd(t, "web", "10.1.0.12")
	if got := n.ips("web"); got != "[10.1.0.12 fd10:0:0:1::77]" {
		t.Errorf("after ADD: %s", got)
	}
}

func TestClusterBecomesDualStack(t *testing.T) {
	s := dualStack()
	second := s.Second
	s.Second = nil
	n := start(t, s, 1)
	n.mustAdd(t, "a", "10.1.0.10")
	n.subnets.Second = second
	n.restart(t)
	if got := n.ips("a"); got != "[10.1.0.10 fd10:0:0:1::2]" {
		t.Errorf("addresses: %s", got)
	}
}
