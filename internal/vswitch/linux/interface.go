package linux

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/vswitch/linux/microservices"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/contiv/contiv/internal/vswitch/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	// InterfaceDescriptor is the name of the descriptor of interfaces. Its
	// metadata are of type InterfaceMetadata, labelled by logical name.
	InterfaceDescriptor = "linux-interface"

	// aliasPrefix starts the aliases of our devices; the logical name follows.
	aliasPrefix = "contiv:linux/"
	// contivAliasPrefix starts the aliases of all devices made by Contiv.
	contivAliasPrefix = "contiv:"
	// vppAliasPrefix starts the aliases of the kernel vswitch's devices.
	vppAliasPrefix = "contiv:vpp/"
	// maxAlias is IFALIASZ, less the terminating zero.
	maxAlias = 255
	// maxDeviceName is IFNAMSIZ, less the terminating zero.
	maxDeviceName = 15
	loopbackName  = "lo"
)

// InterfaceMetadata describes a configured interface. In dumps, fields have the vpp-agent's names.
type InterfaceMetadata struct {
	// Index of the device in its namespace.
	Index int `json:"LinuxIfIndex"`
	// VPPTapName is the other end of a TAP_TO_VPP.
	VPPTapName string
	// Namespace as requested.
	Namespace  *linux_namespace.NetNamespace
	HostIfName string
	// VrfMasterIf is the logical name of the VRF device that the interface is in.
	VrfMasterIf string
	// VrfDevRT is the routing table of a VRF device.
	VrfDevRT uint32
}

type linuxInterface = linux_interfaces.Interface

func (p *Plugin) interfaceDescriptor() kvscheduler.Descriptor[*linuxInterface, InterfaceMetadata] {
	return kvscheduler.Descriptor[*linuxInterface, InterfaceMetadata]{
		Name:               InterfaceDescriptor,
		Keys:               kvscheduler.KeySpace{Prefix: models.LinuxInterface.KeyPrefix()},
		NB:                 true,
		KeyLabel:           func(key string) string { return strings.TrimPrefix(key, models.LinuxInterface.KeyPrefix()) },
		Equivalent:         func(_ string, old, new *linuxInterface) bool { return equivalentInterfaces(old, new) },
		Validate:           func(_ string, v *linuxInterface) error { return validateInterface(v) },
		Create:             p.createInterface,
		Delete:             p.deleteInterface,
		Update:             p.updateInterface,
		UpdateWithRecreate: func(_ string, old, new *linuxInterface, _ InterfaceMetadata) bool { return !sameDevice(old, new) },
		Retrieve:           p.retrieveInterfaces,
		RetrieveKeys:       p.retrieveInterfaceKeys,
		RetrieveAfter:      []string{netalloc.Descriptor},
		Retriable:          retriable,
		DerivedValues:      func(_ string, v *linuxInterface) []kvscheduler.KeyValue { return deriveFromInterface(v) },
		Dependencies:       func(_ string, v *linuxInterface) []kvscheduler.Dependency { return p.interfaceDependencies(v) },
		MetadataIndexes: map[string]func(InterfaceMetadata) []string{
			"host-if-name": func(m InterfaceMetadata) []string { return []string{m.HostIfName} },
		},
	}
}

func deviceName(v *linuxInterface) string {
	switch {
	case v.GetType() == linux_interfaces.Interface_LOOPBACK:
		return loopbackName
	case v.GetHostIfName() != "":
		return v.GetHostIfName()
	default:
		return v.GetName()
	}
}

func logicalName(alias string) (string, bool) { return strings.CutPrefix(alias, aliasPrefix) }

// isExisting reports whether the device is foreign.
func isExisting(v *linuxInterface) bool { return v.GetType() == linux_interfaces.Interface_EXISTING }

// sameDevice reports whether old can become new without being created again.
func sameDevice(old, new *linuxInterface) bool {
	return old.GetType() == new.GetType() &&
		old.GetLinkOnly() == new.GetLinkOnly() &&
		deviceName(old) == deviceName(new) &&
		namespaces.Same(old.GetNamespace(), new.GetNamespace()) &&
		old.GetVrfMasterInterface() == new.GetVrfMasterInterface() &&
		old.GetTap().GetVppTapIfName() == new.GetTap().GetVppTapIfName() &&
		old.GetVeth().GetPeerIfName() == new.GetVeth().GetPeerIfName() &&
		old.GetVeth().GetRxChecksumOffloading() == new.GetVeth().GetRxChecksumOffloading() &&
		old.GetVeth().GetTxChecksumOffloading() == new.GetVeth().GetTxChecksumOffloading() &&
		old.GetVrfDev().GetRoutingTable() == new.GetVrfDev().GetRoutingTable()
}

// equivalentInterfaces reports whether old satisfies new. Fields unset in new may have any value.
// Addresses are separate values and do not count, except on EXISTING interfaces, where only
// requested addresses are read back.
func equivalentInterfaces(old, new *linuxInterface) bool {
	if !sameDevice(old, new) {
		return false
	}
	if isExisting(new) && !sameTexts(old.GetIpAddresses(), new.GetIpAddresses()) {
		return false
	}
	return (old.GetEnabled() == new.GetEnabled() || isExisting(new) || mayNotSetDown(new) && !new.GetEnabled()) &&
		(!setsMAC(new) || sameMAC(old.GetPhysAddress(), new.GetPhysAddress())) &&
		(new.GetMtu() == 0 || old.GetMtu() == new.GetMtu())
}

func sameTexts(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// mayNotSetDown reports whether others may use the device.
func mayNotSetDown(v *linuxInterface) bool {
	return isExisting(v) || v.GetType() == linux_interfaces.Interface_LOOPBACK
}

// setsMAC reports whether the interface requests a MAC address.
func setsMAC(v *linuxInterface) bool { return v.GetPhysAddress() != "" && !v.GetLinkOnly() }

func sameMAC(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	macA, errA := net.ParseMAC(a)
	macB, errB := net.ParseMAC(b)
	return errA == nil && errB == nil && macA.String() == macB.String()
}

func deriveFromInterface(v *linuxInterface) []kvscheduler.KeyValue {
	values := []kvscheduler.KeyValue{{
		Key:   models.LinuxInterfaceStateKey(v.GetName(), v.GetEnabled()),
		Value: &emptypb.Empty{},
	}}
	for _, text := range v.GetIpAddresses() {
		source, addr, ok := netalloc.AddressKeyText(text, v.GetName())
		if !ok {
			addr = text
		}
		if v.GetLinkOnly() {
			source = models.AddrExisting
		}
		values = append(values, kvscheduler.KeyValue{
			Key: models.LinuxInterfaceAddressKey(v.GetName(), source, addr),
			Value: &linuxInterface{
				Name: v.GetName(), Type: v.GetType(), Namespace: v.GetNamespace(),
				HostIfName: v.GetHostIfName(), LinkOnly: v.GetLinkOnly(), IpAddresses: []string{addr},
			},
		})
	}
	return values
}

func (p *Plugin) interfaceDependencies(v *linuxInterface) []kvscheduler.Dependency {
	deps := microservices.Dependencies(v.GetNamespace())
	switch v.GetType() {
	case linux_interfaces.Interface_TAP_TO_VPP:
		deps = append(deps, kvscheduler.Dependency{
			Label: "vpp-tap-interface-exists", Key: models.VPPInterfaceKey(v.GetTap().GetVppTapIfName()),
		})
	case linux_interfaces.Interface_VETH:
		deps = append(deps, kvscheduler.Dependency{
			Label: "veth-peer-exists", Key: models.LinuxInterfaceKey(v.GetVeth().GetPeerIfName()),
		})
	case linux_interfaces.Interface_EXISTING:
		// Devices in other namespaces are not watched.
		if v.GetNamespace().GetType() == linux_namespace.NetNamespace_UNDEFINED {
			deps = append(deps, kvscheduler.Dependency{
				Label: "host-interface-exists", Key: models.LinuxHostNameKey(deviceName(v)),
			})
		}
	}
	if master := v.GetVrfMasterInterface(); master != "" {
		deps = append(deps, kvscheduler.Dependency{Label: "vrf-device-is-created", Key: models.LinuxInterfaceKey(master)})
	}
	return deps
}

func validateInterface(v *linuxInterface) error {
	invalid := func(field, format string, args ...any) error {
		return kvscheduler.NewInvalidValueError(fmt.Errorf(format, args...), field)
	}
	name := v.GetName()
	first, _, _ := strings.Cut(name, "/")
	switch {
	case name == "":
		return invalid("name", "interface has no name")
	case len(aliasPrefix)+len(name) > maxAlias:
		return invalid("name", "name %.80q is longer than %d bytes", name, maxAlias-len(aliasPrefix))
	case strings.ContainsFunc(name, unicode.IsControl):
		return invalid("name", "name %q has control characters", name)
	case first == "host-name" || first == "state":
		return invalid("name", "name %q is reserved: its keys would be mistaken for others", name)
	}
	if err := validateType(v, invalid); err != nil {
		return err
	}
	if host := deviceName(v); len(host) > maxDeviceName || host == "." || host == ".." || strings.ContainsAny(host, "/: ") || strings.ContainsFunc(host, unicode.IsControl) {
		return invalid("host_if_name", "%.80q is no name for a Linux device: set host_if_name to at most %d bytes without slash, colon, space and control characters", host, maxDeviceName)
	}
	if err := models.ValidateNetNS(v.GetNamespace()); err != nil {
		return invalid("namespace", "%w", err)
	}
	if v.GetPhysAddress() != "" {
		if mac, err := net.ParseMAC(v.GetPhysAddress()); err != nil || len(mac) != 6 {
			return invalid("phys_address", "%q is no Ethernet address", v.GetPhysAddress())
		} else if mac[0]&1 != 0 {
			return invalid("phys_address", "%s is a multicast address, which no interface can have: the first byte must be even", mac)
		}
		if v.GetType() == linux_interfaces.Interface_LOOPBACK {
			return invalid("phys_address", "a loopback has no Ethernet address")
		}
	}
	return validateAddresses(v, invalid)
}

func validateType(v *linuxInterface, invalid func(field, format string, args ...any) error) error {
	var fits bool
	switch v.GetType() {
	case linux_interfaces.Interface_TAP_TO_VPP:
		if v.GetTap().GetVppTapIfName() == "" {
			return invalid("vpp_tap_if_name", "TAP_TO_VPP interface does not say which TAP: set tap.vpp_tap_if_name")
		}
		fits = v.GetTap() != nil
	case linux_interfaces.Interface_VETH:
		switch v.GetVeth().GetPeerIfName() {
		case "":
			return invalid("peer_if_name", "VETH interface does not name its peer: set veth.peer_if_name")
		case v.GetName():
			return invalid("peer_if_name", "VETH interface is its own peer")
		}
		fits = v.GetVeth() != nil
	case linux_interfaces.Interface_VRF_DEVICE:
		if v.GetVrfDev().GetRoutingTable() == 0 {
			return invalid("routing_table", "VRF_DEVICE interface has no routing table: set vrf_dev.routing_table")
		}
		fits = v.GetVrfDev() != nil
	case linux_interfaces.Interface_EXISTING:
		fits = v.GetLink() == nil
	case linux_interfaces.Interface_LOOPBACK, linux_interfaces.Interface_DUMMY:
		fits = v.GetLink() == nil
	default:
		return invalid("type", "interface has no type")
	}
	if !fits {
		return invalid("link", "%v interface with the settings of another type", v.GetType())
	}
	return nil
}

func validateAddresses(v *linuxInterface, invalid func(field, format string, args ...any) error) error {
	if err := netalloc.ValidateAddresses(v.GetIpAddresses(), v.GetName()); err != nil {
		return invalid("ip_addresses", "%w", err)
	}
	seen := map[netip.Prefix]bool{}
	for _, text := range v.GetIpAddresses() {
		if netalloc.IsRef(text) {
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return invalid("ip_addresses", "%q is no IP address with prefix length, such as 10.1.2.3/24", text)
		}
		if seen[prefix] {
			return invalid("ip_addresses", "address %s is listed twice", prefix)
		}
		seen[prefix] = true
	}
	return nil
}
