package kernel

import (
	"errors"
	"strings"
	"testing"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vswitchtest"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func tapIn(name string, host *vswitchtest.Host) *vpp_interfaces.Interface {
	v := tap(name)
	v.Mtu = 1450
	v.GetTap().HostNamespace = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: host.NetNS}
	return v
}

func listed(t *testing.T, v *VSwitch, tap *vpp_interfaces.Interface) *vpp_interfaces.TapLink {
	t.Helper()
	list, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{tap})
	check(t, err)
	if len(list) != 1 || list[0].GetName() != tap.GetName() {
		t.Fatalf("listed %v, want only %s", list, tap.GetName())
	}
	return list[0].GetTap()
}

func TestFarEndIsMadeInItsNamespace(t *testing.T) {
	n, pod := newNode(t), newNamespace(t, "pod")
	v := openKernel(t, n)
	tap := tapIn("tap1", pod)
	far := models.TapHostIfName("tap1")
	for range 2 {
		check(t, v.Interfaces().Create(t.Context(), tap))
		out := pod.Exec(t, "ip link show dev "+far)
		if !strings.Contains(out, "mtu 1450") || !strings.Contains(out, "state DOWN") {
			t.Errorf("the far end: %s", out)
		}
		if _, err := n.Try("ip link show dev " + far); err == nil {
			t.Error("the namespace of the vswitch has a far end")
		}
	}
	for _, v := range []*VSwitch{v, openKernel(t, n)} {
		if got := listed(t, v, tap); !proto.Equal(got, tap.GetTap()) {
			t.Errorf("listed as %v, want %v", got, tap.GetTap())
		}
	}
	check(t, v.Interfaces().Delete(t.Context(), tap))
	if out := pod.Exec(t, "ip -o link"); strings.Contains(out, far) {
		t.Errorf("the far end is still there: %s", out)
	}
}

// A far end in the wrong namespace is reported as a difference, and does not prevent recreating the
// TAP.
func TestFarEndInAnotherNamespace(t *testing.T) {
	for _, where := range []string{"another pod", "the node"} {
		t.Run(where, func(t *testing.T) {
			n, pod, other := newNode(t), newNamespace(t, "pod"), newNamespace(t, "other")
			if where == "the node" {
				other = n.Host
			}
			v := openKernel(t, n)
			tap := tapIn("tap1", pod)
			check(t, v.Interfaces().Create(t.Context(), tap))
			pod.Exec(t, "ip link set dev "+models.TapHostIfName("tap1")+" netns "+nsName(other))
			if got := listed(t, v, tap); proto.Equal(got, tap.GetTap()) {
				t.Error("no difference is seen")
			}
			check(t, v.Interfaces().Create(t.Context(), tap))
			if got := listed(t, v, tap); !proto.Equal(got, tap.GetTap()) {
				t.Errorf("listed as %v, want %v", got, tap.GetTap())
			}
			if out := other.Exec(t, "ip -o link"); strings.Contains(out, models.TapHostIfName("tap1")) {
				t.Errorf("the far end that was moved is still there: %s", out)
			}
		})
	}
}

func TestFarEndWithoutNamespaceMayBeAnywhere(t *testing.T) {
	n, pod := newNode(t), newNamespace(t, "pod")
	v := openKernel(t, n)
	anywhere, here := tap("tap1"), tapIn("tap2", n.Host)
	for _, tap := range []*vpp_interfaces.Interface{anywhere, here} {
		check(t, v.Interfaces().Create(t.Context(), tap))
		n.Exec(t, "ip link set dev "+models.TapHostIfName(tap.GetName())+" netns "+nsName(pod))
	}
	list, err := v.Interfaces().List(t.Context(), []*vpp_interfaces.Interface{anywhere, here})
	check(t, err)
	for i, tap := range []*vpp_interfaces.Interface{anywhere, here} {
		if len(list) != 2 || !proto.Equal(list[i].GetTap(), tap.GetTap()) {
			t.Errorf("listed %v, want %v", list, tap.GetTap())
		}
	}
}

func TestFarEndInANamespaceThatIsGone(t *testing.T) {
	n, pod := newNode(t), newNamespace(t, "pod")
	v := openKernel(t, n)
	gone, noNamespace := tapIn("tap1", pod), tapIn("tap2", pod)
	gone.GetTap().HostNamespace.Reference += "-gone"
	noNamespace.GetTap().HostNamespace.Reference = "/etc/hostname"
	for _, tap := range []*vpp_interfaces.Interface{gone, noNamespace} {
		path := tap.GetTap().GetHostNamespace().GetReference()
		err := v.Interfaces().Create(t.Context(), tap)
		if !errors.Is(err, vswitch.ErrNamespaceGone) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %v, want %v", path, err, vswitch.ErrNamespaceGone)
		}
		check(t, v.Interfaces().Delete(t.Context(), tap))
	}
	list, err := v.Interfaces().List(t.Context(), nil)
	check(t, err)
	if len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
}

func TestNameOfTheFarEndIsTaken(t *testing.T) {
	n, pod := newNode(t), newNamespace(t, "pod")
	v := openKernel(t, n)
	tap := tapIn("tap1", pod)
	tap.GetTap().HostIfName = "eth0"
	pod.Exec(t, "ip link add name eth0 type bridge")
	err := v.Interfaces().Create(t.Context(), tap)
	if err == nil || !strings.Contains(err.Error(), "eth0 in network namespace "+pod.NetNS) || !strings.Contains(err.Error(), "host_if_name") {
		t.Errorf("got %v, want an error that says where the name is taken", err)
	}
	pod.Exec(t, "ip link del dev eth0")
	check(t, v.Interfaces().Create(t.Context(), tap))
	pod.Exec(t, "ip link show dev eth0")
}
