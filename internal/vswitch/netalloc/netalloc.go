package netalloc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	pb "github.com/contiv/contiv/api/ligato/netalloc"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Descriptor is the name of the descriptor of allocations.
const Descriptor = "netalloc-ip-address"

// ErrNotAllocated means that no allocation matches a reference.
var ErrNotAllocated = errors.New("address is not allocated")

// Allocation is a parsed IPAllocation.
type Allocation struct {
	// Address of the interface, with the prefix length of its network.
	Address netip.Prefix
	// Gateway of the interface; invalid if none.
	Gateway netip.Prefix
}

type item = kvscheduler.Item[*pb.IPAllocation, Allocation]

// Register adds the descriptor of allocations to the scheduler.
func Register(s *kvscheduler.Scheduler) error {
	if err := kvscheduler.Register(s, descriptor()); err != nil {
		return fmt.Errorf("register descriptor %s: %w", Descriptor, err)
	}
	return nil
}

func descriptor() kvscheduler.Descriptor[*pb.IPAllocation, Allocation] {
	return kvscheduler.Descriptor[*pb.IPAllocation, Allocation]{
		Name:     Descriptor,
		Keys:     kvscheduler.KeySpace{Prefix: models.IPAllocation.KeyPrefix()},
		NB:       true,
		Validate: func(_ string, v *pb.IPAllocation) error { return validate(v) },
		Create: func(_ context.Context, _ string, v *pb.IPAllocation) (Allocation, error) {
			return parse(v)
		},
		Delete: func(context.Context, string, *pb.IPAllocation, Allocation) error { return nil },
		// Allocations exist only in the northbound.
		Retrieve: func(_ context.Context, expected []item) (items []item, err error) {
			for _, it := range expected {
				if it.Metadata, err = parse(it.Value); err == nil {
					items = append(items, item{Key: it.Key, Value: it.Value, Metadata: it.Metadata, Origin: kvscheduler.FromNB})
				}
			}
			return items, nil
		},
		DerivedValues: derive,
	}
}

func validate(v *pb.IPAllocation) error {
	switch {
	case v.GetNetworkName() == "" || strings.Contains(v.GetNetworkName(), "/"):
		return kvscheduler.NewInvalidValueError(fmt.Errorf("%q is no name for a network: it is empty or has a slash", v.GetNetworkName()), "network_name")
	case v.GetInterfaceName() == "":
		return kvscheduler.NewInvalidValueError(errors.New("allocation names no interface"), "interface_name")
	}
	_, err := parse(v)
	return err
}

func derive(_ string, v *pb.IPAllocation) []kvscheduler.KeyValue {
	a, err := parse(v)
	if err != nil || !a.Gateway.IsValid() || !a.Address.Contains(a.Gateway.Addr()) {
		return nil
	}
	return []kvscheduler.KeyValue{{Key: NeighbourGatewayKey(v.GetNetworkName(), v.GetInterfaceName()), Value: &emptypb.Empty{}}}
}

// parse parses the addresses. An address without a prefix length gets the full length; a gateway
// without one gets the address's if it is in its network.
func parse(v *pb.IPAllocation) (a Allocation, err error) {
	if a.Address, err = parseAddress(v.GetAddress()); err != nil {
		return a, kvscheduler.NewInvalidValueError(err, "address")
	}
	if v.GetGw() == "" {
		return a, nil
	}
	if a.Gateway, err = parseAddress(v.GetGw()); err != nil {
		return a, kvscheduler.NewInvalidValueError(err, "gw")
	}
	if a.Gateway.Addr().Is4() != a.Address.Addr().Is4() {
		return a, kvscheduler.NewInvalidValueError(fmt.Errorf("gateway %s is not of the IP version of address %s", v.GetGw(), v.GetAddress()), "gw")
	}
	if !strings.Contains(v.GetGw(), "/") && a.Address.Contains(a.Gateway.Addr()) {
		a.Gateway = netip.PrefixFrom(a.Gateway.Addr(), a.Address.Bits())
	}
	return a, nil
}

func parseAddress(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Prefix{}, fmt.Errorf("%q is no IP address, such as 10.1.2.3/24 or fd00::3", text)
	}
	return netip.PrefixFrom(addr, addr.BitLen()), nil
}
