package linux

import (
	"strings"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/contiv/contiv/internal/vswitch/linux/namespaces"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// foreignDevices derives from a namespace's events whether foreign devices have changed. Devices
// made by Contiv are recognised by their aliases. Each pod change causes several events, so listing
// all devices for each would be too slow.
type foreignDevices struct {
	// isOurs reports whether Contiv made a device.
	isOurs func(name, alias string) bool
	// ours maps known devices by index to whether Contiv made them.
	ours map[int]bool
	// touched holds the devices with events since the last call of changed.
	touched map[int]touchedDevice
}

type touchedDevice struct{ ours, gone bool }

// newForeignDevices starts with the present devices of the namespace.
func newForeignDevices(ns *namespaces.Namespace, isOurs func(name, alias string) bool) (*foreignDevices, error) {
	f := &foreignDevices{isOurs: isOurs, ours: map[int]bool{}, touched: map[int]touchedDevice{}}
	links, err := ns.Links()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		f.ours[l.Attrs().Index] = isOurs(l.Attrs().Name, l.Attrs().Alias)
	}
	return f, nil
}

// isOurs reports whether Contiv made a device. The loopback always belongs to the host.
func isOurs(name, alias string) bool {
	return strings.HasPrefix(alias, contivAliasPrefix) && name != loopbackName
}

// handle processes an event of the namespace.
func (f *foreignDevices) handle(m syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] == unix.AF_BRIDGE { // concerns a bridge port
			return
		}
		name, alias := deviceNames(m.Data)
		f.touched[int(nl.DeserializeIfInfomsg(m.Data).Index)] = touchedDevice{ours: f.isOurs(name, alias), gone: m.Header.Type == unix.RTM_DELLINK}
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return
		}
		index := int(nl.DeserializeIfAddrmsg(m.Data).Index)
		if _, ok := f.touched[index]; !ok {
			f.touched[index] = touchedDevice{ours: f.ours[index]}
		}
	}
}

// deviceNames decodes the name and the alias from a link message.
func deviceNames(data []byte) (name, alias string) {
	for attr, value := range nlattr.All(data[unix.SizeofIfInfomsg:]) {
		switch attr {
		case unix.IFLA_IFNAME:
			name = unix.ByteSliceToString(value)
		case unix.IFLA_IFALIAS:
			alias = unix.ByteSliceToString(value)
		}
	}
	return name, alias
}

// changed reports whether foreign devices had events since the last call. Our own device counts as
// foreign until its alias is set, which follows its announcement.
func (f *foreignDevices) changed() bool {
	changed := false
	for index, now := range f.touched {
		was, known := f.ours[index]
		changed = changed || !now.ours || known && !was
		if now.gone {
			delete(f.ours, index)
		} else {
			f.ours[index] = now.ours
		}
	}
	clear(f.touched)
	return changed
}
