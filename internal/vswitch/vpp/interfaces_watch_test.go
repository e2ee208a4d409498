package vpp

import (
	"slices"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"
	"github.com/contiv/contiv/models"
	interfaces_api "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/interface_types"
	"google.golang.org/protobuf/proto"
)

type reported struct {
	reason string
	keys   []string
}

func watchDrift(t testing.TB, v *VSwitch) <-chan reported {
	t.Helper()
	got := make(chan reported, 100)
	if err := v.Watch(t.Context(), func(reason string, keys ...string) { got <- reported{reason, keys} }); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestWhatOthersDoToInterfacesIsReported(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		got := watchDrift(t, v)
		create(t, v, loopback("a"), loopback("b"), loopback("c"))
		off := proto.CloneOf(loopback("c"))
		off.Enabled = false
		if err := v.Interfaces().Update(t.Context(), loopback("c"), off); err != nil {
			t.Fatal(err)
		}
		remove(t, v, off)
		a, _ := v.ifs.Index(t.Context(), "a")
		b, _ := v.ifs.Index(t.Context(), "b")
		if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.SwInterfaceSetFlags{SwIfIndex: a}, &interfaces_api.SwInterfaceSetFlagsReply{}); err != nil {
			t.Fatal(err)
		}
		want := func(name, reason string) {
			t.Helper()
			select {
			case r := <-got: // our own changes are not reported
				if !slices.Equal(r.keys, []string{models.VPPInterfaceKey(name)}) || !strings.Contains(r.reason, reason) {
					t.Errorf("reported %q %v, want %s of %s", r.reason, r.keys, reason, name)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("%s: nothing is reported", reason)
			}
		}
		want("a", "up or down")
		if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.DeleteLoopback{SwIfIndex: b}, &interfaces_api.DeleteLoopbackReply{}); err != nil {
			t.Fatal(err)
		}
		want("b", "deleted")
		create(t, v, loopback("a"), loopback("b"))
		wantInterfaces(t, v, loopback("a"), loopback("b"))
	})
}

func TestStatesAreReported(t *testing.T) {
	onEachVPP(t, func(t *testing.T, s *site) {
		v := open(t, s)
		got := make(chan *vpp_interfaces.InterfaceState, 100)
		v.States().Watch(func(states ...*vpp_interfaces.InterfaceState) {
			for _, s := range states {
				got <- s
			}
		})
		want := func(name string, oper vpp_interfaces.InterfaceState_Status) *vpp_interfaces.InterfaceState {
			t.Helper()
			for deadline := time.After(10 * time.Second); ; {
				select {
				case s := <-got:
					if s.GetName() == name && s.GetOperStatus() == oper {
						return s
					}
				case <-deadline:
					t.Fatalf("%s is not reported %v", name, oper)
				}
			}
		}
		on := loopback("a")
		on.Mtu, on.PhysAddress = 1400, "02:00:00:00:00:01"
		create(t, v, on)
		state := want("a", vpp_interfaces.InterfaceState_UP)
		if state.GetMtu() != 1400 || state.GetPhysAddress() != on.GetPhysAddress() || state.GetInternalName() != "loop0" ||
			state.GetType() != on.GetType() || state.GetAdminStatus() != vpp_interfaces.InterfaceState_UP {
			t.Errorf("state %v", state)
		}
		off := proto.CloneOf(on)
		off.Enabled = false
		if err := v.Interfaces().Update(t.Context(), on, off); err != nil {
			t.Fatal(err)
		}
		want("a", vpp_interfaces.InterfaceState_DOWN)
		i, _ := v.ifs.Index(t.Context(), "a")
		if err := v.vpp.Call(t.Context(), session.Core, &interfaces_api.SwInterfaceSetFlags{SwIfIndex: i, Flags: interface_types.IF_STATUS_API_FLAG_ADMIN_UP},
			&interfaces_api.SwInterfaceSetFlagsReply{}); err != nil {
			t.Fatal(err)
		}
		want("a", vpp_interfaces.InterfaceState_UP)
		list, err := v.States().List(t.Context())
		if err != nil || len(list) != 1 || list[0].GetName() != "a" || list[0].GetOperStatus() != vpp_interfaces.InterfaceState_UP {
			t.Errorf("states %v, error %v", list, err)
		}
		remove(t, v, off)
		want("a", vpp_interfaces.InterfaceState_DELETED)

		create(t, v, on)
		want("a", vpp_interfaces.InterfaceState_UP)
		s.Restart()
		want("a", vpp_interfaces.InterfaceState_DELETED)
	})
}
