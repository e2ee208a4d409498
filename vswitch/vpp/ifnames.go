package vpp

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	ifapi "go.fd.io/govpp/binapi/interface"
)

const noIndex = ^index(0)

// ifNames are the logical names of all interfaces at one moment; "": somebody else's.
type ifNames map[index]string

// of returns the name of the interface that something lies on, and if that is ours.
// What lies on an interface that is gone is ours, under a name that nobody else has:
// nobody but us would remove it.
func (n ifNames) of(i index) (name string, ours bool) {
	name, exists := n[i]
	if !exists {
		return goneName(i), true
	}
	return name, name != ""
}

// goneName is that of an interface that does not exist; no northbound value has it.
func goneName(i index) string { return fmt.Sprintf("?%d", i) }

// goneIndex is the opposite of goneName.
func goneIndex(name string) (index, bool) {
	digits, ok := strings.CutPrefix(name, "?")
	i, err := strconv.ParseUint(digits, 10, 32)
	return index(i), ok && err == nil
}

// allInterfaces returns what VPP says about all interfaces, whoever's they are.
func (v *VSwitch) allInterfaces(ctx context.Context) ([]*ifapi.SwInterfaceDetails, error) {
	return v.startInterfaces(ctx).wait(ctx)
}

// startInterfaces begins to read all interfaces.
func (v *VSwitch) startInterfaces(ctx context.Context) *pendingDump[ifapi.SwInterfaceDetails, *ifapi.SwInterfaceDetails] {
	return startDump[ifapi.SwInterfaceDetails](ctx, v, ifModule, &ifapi.SwInterfaceDump{SwIfIndex: noIndex})
}

func waitNames(ctx context.Context, d *pendingDump[ifapi.SwInterfaceDetails, *ifapi.SwInterfaceDetails]) (ifNames, error) {
	all, err := d.wait(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading interfaces: %w", err)
	}
	names := make(ifNames, len(all))
	for _, d := range all {
		names[d.SwIfIndex] = logicalName(d)
	}
	return names, nil
}
