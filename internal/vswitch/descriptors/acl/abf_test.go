package acl

import (
	"errors"
	"slices"
	"testing"

	vpp_abf "github.com/contiv/contiv/api/ligato/vpp/abf"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor/descriptortest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

func TestABFValidation(t *testing.T) {
	for name, err := range map[string]error{
		"ABF without list":      validateABF(&vpp_abf.ABF{}),
		"ABF without interface": validateABF(&vpp_abf.ABF{AclName: "a", AttachedInterfaces: []*vpp_abf.ABF_AttachedInterface{{}}}),
		"ABF without next hop":  validateABF(&vpp_abf.ABF{AclName: "a", ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{{}}}),
	} {
		descriptortest.WantField(t, name, err)
	}
}

type lackingFeatures struct{ vswitch.Features }

func (lackingFeatures) Lacks(descriptor string) string { return "no " + descriptor }

func TestWithoutPortValuesAreUnimplementedAtOnce(t *testing.T) {
	d := descriptor.Unimplemented(lackingFeatures{}, abfDescriptor(nil))
	if d.Dependencies != nil || d.DerivedValues != nil || d.Retrieve != nil || d.Update != nil {
		t.Error("an operation is not done")
	}
	if err := d.Validate("", &vpp_abf.ABF{}); err == nil {
		t.Error("mistakes do not show")
	}
	_, err := d.Create(t.Context(), "", &vpp_abf.ABF{AclName: "a"})
	if !errors.Is(err, kvscheduler.ErrUnsupported) || err.Error() != vswitch.Unsupported("no vpp-abf").Error() {
		t.Errorf("got %v", err)
	}
}

func TestABFDerivesItsInterfaces(t *testing.T) {
	d := abfDescriptor(struct{ vswitch.ABFs }{})
	at := &vpp_abf.ABF_AttachedInterface{InputInterface: "Gig0/9/0", Priority: 5, IsIpv6: true}
	abf := &vpp_abf.ABF{Index: 7, AclName: "web", AttachedInterfaces: []*vpp_abf.ABF_AttachedInterface{at}, ForwardingPaths: []*vpp_abf.ABF_ForwardingPath{
		{NextHopIp: "10.0.0.1", InterfaceName: "a"}, {NextHopIp: "10.0.0.2"}, {NextHopIp: "10.0.0.3", InterfaceName: "a"}}}
	derived := d.DerivedValues("", abf)
	if len(derived) != 1 || derived[0].Key != "vpp/abf/7/interface/Gig0/9/0" || !proto.Equal(derived[0].Value, at) {
		t.Errorf("derived %v", derived)
	}
	if index, err := abfOfInterfaceKey(derived[0].Key); index != 7 || err != nil {
		t.Errorf("the key is of ABF %d: %v", index, err)
	}
	if _, err := abfOfInterfaceKey("vpp/abf/x/interface/y"); err == nil {
		t.Error("an index that is none is taken")
	}
	var labels []string
	for _, dep := range d.Dependencies("", abf) {
		labels = append(labels, dep.Label+"="+dep.Key)
	}
	want := []string{
		"acl-exists=" + models.ACL.KeyPrefix() + "web",
		"interface-exists-1=" + models.VPPInterfaceKey("a"), "interface-exists-3=" + models.VPPInterfaceKey("a"),
	}
	if !slices.Equal(labels, want) {
		t.Errorf("depends on %v, want %v", labels, want)
	}
	twice := proto.CloneOf(abf)
	twice.AttachedInterfaces = append(twice.AttachedInterfaces, &vpp_abf.ABF_AttachedInterface{InputInterface: "Gig0/9/0"})
	if d.Validate("", twice) == nil {
		t.Error("an interface is attached twice")
	}
}

func TestEquivalenceAndRecreationOfABF(t *testing.T) {
	d := abfDescriptor(struct{ vswitch.ABFs }{})
	base := func(edit func(*vpp_abf.ABF)) *vpp_abf.ABF {
		a := &vpp_abf.ABF{
			Index: 1, AclName: "a",
			AttachedInterfaces: []*vpp_abf.ABF_AttachedInterface{{InputInterface: "x"}, {InputInterface: "y"}},
			ForwardingPaths:    []*vpp_abf.ABF_ForwardingPath{{NextHopIp: "fd00::1", Weight: 1}, {NextHopIp: "fd00::2", Weight: 2}},
		}
		edit(a)
		return a
	}
	for _, test := range []struct {
		name                 string
		edit                 func(*vpp_abf.ABF)
		equivalent, recreate bool
	}{
		{"nothing", func(*vpp_abf.ABF) {}, true, false},
		{"order", func(a *vpp_abf.ABF) {
			slices.Reverse(a.AttachedInterfaces)
			slices.Reverse(a.ForwardingPaths)
		}, true, false},
		{"another way to write a path", func(a *vpp_abf.ABF) {
			a.ForwardingPaths[0] = &vpp_abf.ABF_ForwardingPath{NextHopIp: "FD00:0::1"}
		}, true, false},
		{"paths", func(a *vpp_abf.ABF) { a.ForwardingPaths = a.ForwardingPaths[:1] }, false, false},
		{"weight", func(a *vpp_abf.ABF) { a.ForwardingPaths[0].Weight = 3 }, false, false},
		{"interfaces", func(a *vpp_abf.ABF) { a.AttachedInterfaces = nil }, false, false},
		{"priority", func(a *vpp_abf.ABF) { a.AttachedInterfaces[0].Priority = 9 }, false, false},
		{"list", func(a *vpp_abf.ABF) { a.AclName = "b" }, false, true},
	} {
		old, new := base(func(*vpp_abf.ABF) {}), base(test.edit)
		if got := d.Equivalent("", old, new); got != test.equivalent {
			t.Errorf("%s: equivalent %v, want %v", test.name, got, test.equivalent)
		}
		if got := d.UpdateWithRecreate("", old, new, descriptor.NoMeta{}); got != test.recreate {
			t.Errorf("%s: re-creation %v, want %v", test.name, got, test.recreate)
		}
	}
}
