package ownership

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	ifapi "go.fd.io/govpp/binapi/interface"
)

const NoIndex = ^Index(0)

// Names holds the logical names of all interfaces at one time; "" for foreign ones.
type Names map[Index]string

// Of returns the name of an object's interface, and whether the object is ours. An object on a
// deleted interface is ours, under an impossible name, because only we would remove it.
func (n Names) Of(i Index) (name string, ours bool) {
	name, exists := n[i]
	if !exists {
		return GoneName(i), true
	}
	return name, name != ""
}

// GoneName is the name of a deleted interface; no northbound value has it.
func GoneName(i Index) string { return fmt.Sprintf("?%d", i) }

// GoneIndex is the opposite of GoneName.
func GoneIndex(name string) (Index, bool) {
	digits, ok := strings.CutPrefix(name, "?")
	i, err := strconv.ParseUint(digits, 10, 32)
	return Index(i), ok && err == nil
}

// All returns VPP's details of all interfaces, including foreign ones.
func (x *Registry) All(ctx context.Context) ([]*ifapi.SwInterfaceDetails, error) {
	return x.Start(ctx).Wait(ctx)
}

// Start begins to read all interfaces.
func (x *Registry) Start(ctx context.Context) *session.Pending[ifapi.SwInterfaceDetails, *ifapi.SwInterfaceDetails] {
	return session.StartDump[ifapi.SwInterfaceDetails](ctx, x.vpp, Interfaces, &ifapi.SwInterfaceDump{SwIfIndex: NoIndex})
}

func WaitNames(ctx context.Context, d *session.Pending[ifapi.SwInterfaceDetails, *ifapi.SwInterfaceDetails]) (Names, error) {
	all, err := d.Wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading interfaces: %w", err)
	}
	names := make(Names, len(all))
	for _, d := range all {
		names[d.SwIfIndex] = LogicalName(d)
	}
	return names, nil
}

// UnknownPrefix starts impossible names: of objects that an interface is no longer attached to.
const UnknownPrefix = "UNKNOWN-"

// Resolve returns the index of an interface; NoIndex for no name. Deleted interfaces have the names
// of GoneName.
func (x *Registry) Resolve(ctx context.Context, name string) (Index, error) {
	if name == "" {
		return NoIndex, nil
	}
	if i, ok := GoneIndex(name); ok {
		return i, nil
	}
	return x.Index(ctx, name)
}

// AnyName returns the logical name of an interface; an impossible one for a foreign interface.
func (x *Registry) AnyName(ctx context.Context, i Index) (string, error) {
	name, err := x.Name(ctx, i)
	if err == nil && name == "" {
		name = fmt.Sprintf("%s%d", UnknownPrefix, i)
	}
	return name, err
}

// Details returns VPP's details of an interface; nil if it does not exist.
func (x *Registry) Details(ctx context.Context, i Index) (*ifapi.SwInterfaceDetails, error) {
	found, err := session.Dump[ifapi.SwInterfaceDetails](ctx, x.vpp, Interfaces, &ifapi.SwInterfaceDump{SwIfIndex: i})
	for _, d := range found {
		if d.SwIfIndex == i {
			return d, err
		}
	}
	return nil, err
}

// CarriesFrames reports whether an interface carries Ethernet frames, which means that it has a
// hardware address. VPP 25.10 crashes where it needs a missing one.
func (x *Registry) CarriesFrames(ctx context.Context, i Index) (bool, error) {
	d, err := x.Details(ctx, i)
	if err == nil && d == nil {
		err = errors.New("it has disappeared")
	}
	return err == nil && d.L2Address != ethernet_types.MacAddress{}, err
}

// OnExisting calls fn if the interface exists. It ignores VPP's error that it does not.
func (x *Registry) OnExisting(ctx context.Context, iface string, fn func(Index) error) error {
	i, ok, err := x.Known(ctx, iface)
	if err != nil || !ok {
		return err
	}
	if err := fn(i); !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
		return err
	}
	return nil
}
