package interfaces

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/descriptors/descriptor"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// dhcpClientDescriptor handles vpp/interface/dhcp-client/{if}, derived from
// interfaces with set_dhcp_client.
func dhcpClientDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta] {
	ifaceOf := func(key string) string { return strings.TrimPrefix(key, dhcpClientPrefix) }
	return kvscheduler.Descriptor[*emptypb.Empty, descriptor.NoMeta]{
		Name: vswitch.DHCPClientDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isDHCPClientKey,
			Example: models.DHCPClientKey("if"),
		},
		Create: func(ctx context.Context, key string, _ *emptypb.Empty) (descriptor.NoMeta, error) {
			return descriptor.NoMeta{}, port.SetDHCPClient(ctx, ifaceOf(key))
		},
		Delete: func(ctx context.Context, key string, _ *emptypb.Empty, _ descriptor.NoMeta) error {
			return port.UnsetDHCPClient(ctx, ifaceOf(key))
		},
		Dependencies: func(key string, _ *emptypb.Empty) []kvscheduler.Dependency {
			return []kvscheduler.Dependency{inSomeVRF(ifaceOf(key))}
		},
	}
}

// dhcpLeaseDescriptor handles vpp/interface/dhcp-lease/{if}. Leases are obtained and derive their
// address. The metadata is the lease, by interface name.
func dhcpLeaseDescriptor(port vswitch.Interfaces) kvscheduler.Descriptor[*vpp_interfaces.DHCPLease, *vpp_interfaces.DHCPLease] {
	type item = kvscheduler.Item[*vpp_interfaces.DHCPLease, *vpp_interfaces.DHCPLease]
	return kvscheduler.Descriptor[*vpp_interfaces.DHCPLease, *vpp_interfaces.DHCPLease]{
		Name: vswitch.DHCPLeaseDescriptor,
		Keys: kvscheduler.KeySpace{
			Prefix: derivedPrefix, Match: isDHCPLeaseKey,
			Example: models.DHCPLeaseKey("if"),
		},
		KeyLabel: func(key string) string { return strings.TrimPrefix(key, dhcpLeasePrefix) },
		Retrieve: func(ctx context.Context, _ []item) ([]item, error) {
			leases, err := port.Leases(ctx)
			items := make([]item, len(leases))
			for i, l := range leases {
				items[i] = item{Key: models.DHCPLeaseKey(l.GetInterfaceName()), Value: l, Metadata: l, Origin: kvscheduler.FromSB}
			}
			return items, err
		},
		RetrieveAfter: []string{vswitch.InterfaceDescriptor},
		DerivedValues: func(_ string, l *vpp_interfaces.DHCPLease) []kvscheduler.KeyValue {
			addr, err := netip.ParsePrefix(l.GetHostIpAddress())
			if err != nil {
				return nil
			}
			return []kvscheduler.KeyValue{{
				Key:   models.VPPInterfaceAddressKey(l.GetInterfaceName(), models.AddrFromDHCP, addr.String()),
				Value: descriptor.Empty(),
			}}
		},
	}
}

// notifyLeases returns an observer that reports leases to the scheduler. The next resync finds a
// lease that the scheduler refuses.
func notifyLeases(s *kvscheduler.Scheduler) func(string, *vpp_interfaces.DHCPLease) {
	return func(iface string, lease *vpp_interfaces.DHCPLease) {
		n := kvscheduler.Notification{Key: models.DHCPLeaseKey(iface)}
		if lease != nil {
			n.Value, n.Metadata = lease, lease
		}
		if err := s.PushSBNotification(n); err != nil {
			slog.Warn("Reporting a DHCP lease to the scheduler failed; the next resync reports it", "interface", iface, "error", err)
		}
	}
}
