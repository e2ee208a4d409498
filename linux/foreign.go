package linux

import (
	"strings"
	"syscall"

	"github.com/contiv/contiv/linux/namespaces"
	"github.com/contiv/contiv/netlink/nlattr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// foreignDevices finds out from the events of a namespace whether devices of others
// have changed. Those that Contiv made are marked by their aliases. Each pod that comes
// or goes changes one of them several times, so that it matters not to list
// all devices each time.
type foreignDevices struct {
	// isOurs reports whether a device does not count.
	isOurs func(name, alias string) bool
	// ours are the known devices; true: created by Contiv.
	ours map[int]bool
	// touched are the devices with events since the last call of changed: whether
	// they are ours now, and whether they are gone.
	touched map[int]touchedDevice
}

type touchedDevice struct{ ours, gone bool }

// newForeignDevices knows the devices that the namespace has.
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

// isOurs reports whether Contiv made a device. A loopback is the host's, whatever its alias.
func isOurs(name, alias string) bool {
	return strings.HasPrefix(alias, contivAliasPrefix) && name != loopbackName
}

// handle takes an event of the namespace.
func (f *foreignDevices) handle(m syscall.NetlinkMessage) {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		if len(m.Data) < unix.SizeofIfInfomsg || m.Data[0] == unix.AF_BRIDGE { // a port of a bridge, not the device
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

// deviceNames returns the name and the alias in the payload of a message about a device.
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

// changed reports whether there was an event of a foreign device since the last call. A device of
// ours counts as foreign until it has its alias, which it gets after it was announced.
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
