package policyrules

import (
	"fmt"
	"net/netip"
	"slices"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"google.golang.org/protobuf/proto"
)

// FieldError names the invalid field of a value and the remedy.
type FieldError struct{ Field, Text string }

func (e *FieldError) Error() string { return e.Field + ": " + e.Text }

func wrong(field, format string, args ...any) *FieldError {
	return &FieldError{field, fmt.Sprintf(format, args...)}
}

func first(errs ...*FieldError) *FieldError {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func validName(name string) *FieldError {
	switch {
	case name == "":
		return wrong("name", "give it a name")
	case len(name) > 512:
		return wrong("name", "the name is longer than 512 bytes: shorten it")
	}
	return nil
}

func validAddresses(field string, texts []string) *FieldError {
	for i, text := range texts {
		addr, err := netip.ParseAddr(text)
		switch at := fmt.Sprintf("%s[%d]", field, i); {
		case err != nil:
			return wrong(at, "%q is no IP address: write it like 10.1.1.2 or fd10:1::2", text)
		case addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified():
			return wrong(at, "%q is no address of a pod or a node: write it like 10.1.1.2 or fd10:1::2", text)
		}
	}
	return nil
}

// ValidateAddressSet returns nil for a valid set.
func ValidateAddressSet(v *contiv_filter.AddressSet) *FieldError {
	return first(validName(v.GetName()), validAddresses("addresses", v.GetAddresses()))
}

// ValidateEndpointSet returns nil for a valid set.
func ValidateEndpointSet(v *contiv_filter.EndpointSet) *FieldError {
	for i, e := range v.GetEndpoints() {
		at := fmt.Sprintf("endpoints[%d].", i)
		if err := first(validAddresses(at+"address", []string{e.GetAddress()}), validProtocol(at+"protocol", e.GetProtocol())); err != nil {
			return err
		}
		if e.GetPort() == 0 || e.GetPort() > 65535 {
			return wrong(at+"port", "%d is no port: use 1 to 65535", e.GetPort())
		}
	}
	return validName(v.GetName())
}

func validProtocol(field string, p contiv_filter.Protocol) *FieldError {
	if _, ok := contiv_filter.Protocol_name[int32(p)]; !ok {
		return wrong(field, "unknown protocol %d: use TCP, UDP or SCTP", p)
	}
	return nil
}

// ValidateAccessList returns nil for a valid list.
func ValidateAccessList(v *contiv_filter.AccessList) *FieldError {
	if _, ok := contiv_filter.AccessList_Direction_name[int32(v.GetDirection())]; !ok {
		return wrong("direction", "unknown direction %d: use INGRESS or EGRESS", v.GetDirection())
	}
	for i, r := range v.GetRules() {
		at := fmt.Sprintf("rules[%d].", i)
		if _, ok := contiv_filter.AccessList_Action_name[int32(r.GetAction())]; !ok {
			return wrong(at+"action", "unknown action %d: use ALLOW, DENY or PASS", r.GetAction())
		}
		if slices.Contains(r.GetAddressSets(), "") {
			return wrong(at+"address_sets", "give the names of sets")
		}
		if slices.Contains(r.GetEndpointSets(), "") {
			return wrong(at+"endpoint_sets", "give the names of sets")
		}
		for j, text := range r.GetNetworks() {
			if p, err := netip.ParsePrefix(text); err != nil || p.Addr().Is4In6() {
				return wrong(fmt.Sprintf("%snetworks[%d]", at, j), "%q is no network: write it like 10.1.0.0/16 or fd10::/32", text)
			}
		}
		for j, p := range r.GetPorts() {
			at := fmt.Sprintf("%sports[%d].", at, j)
			if err := validProtocol(at+"protocol", p.GetProtocol()); err != nil {
				return err
			}
			if p.GetLast() > 65535 || p.GetFirst() > p.GetLast() || p.GetFirst() == 0 && p.GetLast() != 0 {
				return wrong(at+"last", "%d to %d are no ports: use 1 to 65535, or 0 and 0 for all", p.GetFirst(), p.GetLast())
			}
		}
	}
	return validName(v.GetName())
}

// ValidateSubject returns nil for a valid subject.
func ValidateSubject(v *contiv_filter.Subject) *FieldError {
	if len(v.GetAddresses()) == 0 {
		return wrong("addresses", "give the addresses of the pod")
	}
	for _, stages := range [][]*contiv_filter.Subject_Stage{v.GetIngress(), v.GetEgress()} {
		for _, s := range stages {
			if slices.Contains(s.GetLists(), "") {
				return wrong("ingress, egress", "give the names of lists")
			}
		}
	}
	return first(validName(v.GetName()), validAddresses("addresses", v.GetAddresses()))
}

// Equivalent reports whether two values have the same effect: descriptions and the order of members
// do not matter.
func Equivalent(a, b proto.Message) bool {
	switch a := a.(type) {
	case *contiv_filter.AddressSet:
		b, ok := b.(*contiv_filter.AddressSet)
		return ok && a.GetName() == b.GetName() && (slices.Equal(a.GetAddresses(), b.GetAddresses()) || slices.Equal(sorted(a.GetAddresses()), sorted(b.GetAddresses())))
	case *contiv_filter.EndpointSet:
		b, ok := b.(*contiv_filter.EndpointSet)
		return ok && a.GetName() == b.GetName() && slices.Equal(sorted(endpointTexts(a)), sorted(endpointTexts(b)))
	}
	return proto.Equal(a, b)
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

func endpointTexts(v *contiv_filter.EndpointSet) []string {
	list := make([]string, len(v.GetEndpoints()))
	for i, e := range v.GetEndpoints() {
		list[i] = fmt.Sprint(e.GetAddress(), " ", e.GetProtocol(), " ", e.GetPort())
	}
	return list
}
