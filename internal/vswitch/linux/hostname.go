package linux

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"google.golang.org/protobuf/types/known/emptypb"
)

// HostNameDescriptor is the name of the descriptor of the devices in the agent's network namespace,
// without those of the kernel vswitch.
const HostNameDescriptor = "linux-interface-watcher"

const hostNameKeyPrefix = "linux/interface/host-name/"

type hostNameItem = kvscheduler.Item[*emptypb.Empty, kvscheduler.NoMetadata]

// hostNameDescriptor describes obtained values: each device that is up, and each of its addresses.
// Watch pushes changes. Interfaces of the linux.* models are included, because AF_PACKET interfaces
// attach to them like to any other device. Devices of the kernel vswitch are left out, so that
// adding or removing a pod causes no notification.
func (p *Plugin) hostNameDescriptor() kvscheduler.Descriptor[*emptypb.Empty, kvscheduler.NoMetadata] {
	return kvscheduler.Descriptor[*emptypb.Empty, kvscheduler.NoMetadata]{
		Name:     HostNameDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: hostNameKeyPrefix},
		KeyLabel: func(key string) string { return strings.TrimPrefix(key, hostNameKeyPrefix) },
		Retrieve: func(context.Context, []hostNameItem) ([]hostNameItem, error) {
			keys, err := p.hostNameKeys()
			if err != nil {
				return nil, fmt.Errorf("retrieve the host's devices: %w", err)
			}
			items := make([]hostNameItem, 0, len(keys))
			for _, key := range slices.Sorted(maps.Keys(keys)) {
				items = append(items, hostNameItem{Key: key, Value: &emptypb.Empty{}, Origin: kvscheduler.FromSB})
			}
			return items, nil
		},
	}
}

// hostNameKeys returns the keys of the obtained values that exist.
func (p *Plugin) hostNameKeys() (map[string]bool, error) {
	own := p.namespaces.Own
	links, err := own.Links()
	if err != nil {
		return nil, err
	}
	keys, names := map[string]bool{}, map[int]string{}
	for _, l := range links {
		if isObtained(l) {
			names[l.Attrs().Index] = l.Attrs().Name
			keys[models.LinuxHostNameKey(l.Attrs().Name)] = true
		}
	}
	addresses, err := own.AllAddresses()
	if err != nil {
		return nil, err
	}
	for _, a := range addresses {
		if name, ok := names[a.Index]; ok {
			keys[models.LinuxHostNameAddressKey(name, a.Prefix.String())] = true
		}
	}
	return keys, nil
}

// isObtained reports whether a device is up and does not belong to the kernel vswitch.
func isObtained(l netlink.Link) bool {
	return isUp(l) && !isVSwitchDevice(l.Attrs().Name, l.Attrs().Alias)
}

func isVSwitchDevice(name, alias string) bool {
	return isOurs(name, alias) && !strings.HasPrefix(alias, aliasPrefix)
}
