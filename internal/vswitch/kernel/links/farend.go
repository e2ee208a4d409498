package links

import (
	"errors"
	"fmt"
	"os"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/netlink/nsfile"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

type farEnd struct {
	name string
	// NS is an open network namespace; nil: ours.
	NS *os.File
}

func (f farEnd) close() {
	if f.NS != nil {
		f.NS.Close()
	}
}

func (f farEnd) String() string {
	if f.NS == nil {
		return f.name
	}
	return f.name + " in network namespace " + f.NS.Name()
}

func (v *Driver) farEndOf(iface *vpp_interfaces.Interface) (far farEnd, err error) {
	far.name = iface.GetTap().GetHostIfName()
	if far.name == "" {
		far.name = models.TapHostIfName(iface.GetName())
	}
	if len(far.name) > own.MaxDeviceName {
		return far, fmt.Errorf("tap.host_if_name %q is too long: use at most %d characters", far.name, own.MaxDeviceName)
	}
	far.NS, err = v.openHostNamespace(iface.GetTap().GetHostNamespace())
	return far, err
}

// openHostNamespace opens a namespace, or returns nil for ours. The caller closes it immediately,
// because an open namespace outlives its pod.
func (v *Driver) openHostNamespace(ref *linux_namespace.NetNamespace) (*os.File, error) {
	path, ok := models.NetNSPath(ref, models.NetNSDir)
	switch {
	case !ok:
		return nil, fmt.Errorf("tap.host_namespace: %w: no microservice %q runs on this node", vswitch.ErrNamespaceGone, ref.GetReference())
	case path == "":
		return nil, nil
	}
	file, err := nsfile.Open(path)
	if errors.Is(err, nsfile.ErrNone) || errors.Is(err, nsfile.ErrOther) {
		return nil, fmt.Errorf("tap.host_namespace: %w: %w", vswitch.ErrNamespaceGone, err)
	}
	if err != nil {
		return nil, fmt.Errorf("tap.host_namespace: %w", err)
	}
	own, err := v.isOwn(file)
	if err != nil || own {
		file.Close()
		return nil, err
	}
	return file, nil
}

func (v *Driver) isOwn(file *os.File) (bool, error) {
	there, err := nsfile.Identify(file)
	if err != nil {
		return false, fmt.Errorf("tap.host_namespace: %w", err)
	}
	var here unix.Stat_t
	if err := unix.Fstat(int(v.NS.Handle), &here); err != nil {
		return false, fmt.Errorf("the agent's network namespace: %w", err)
	}
	return there == nsfile.ID{Dev: uint64(here.Dev), Ino: here.Ino}, nil
}

// tapLink returns the parameters of a TAP, given its near end. A veth pair reveals only the
// location of the far end, and only the far end's name had an effect; the other parameters are
// returned as expected. A far end created in our namespace may be anywhere, because a Linux
// interface moves it to its destination.
func (v *Driver) tapLink(expected *vpp_interfaces.Interface, near netlink.Link) *vpp_interfaces.TapLink {
	if expected.GetTap() == nil {
		return &vpp_interfaces.TapLink{Version: 2}
	}
	tap := proto.CloneOf(expected.GetTap())
	if !v.atHome(near, tap.GetHostNamespace()) {
		tap.HostNamespace = nil
		if id := near.Attrs().NetNsID; id >= 0 {
			tap.HostNamespace = &linux_namespace.NetNamespace{
				Type: linux_namespace.NetNamespace_NSID, Reference: fmt.Sprintf("%snsid-%d", own.UnknownPrefix, id),
			}
		}
	}
	return tap
}

// atHome reports whether the other end of a veth is in the namespace it was created in. The kernel
// returns the namespace as an ID relative to ours.
func (v *Driver) atHome(near netlink.Link, home *linux_namespace.NetNamespace) bool {
	ns, err := v.openHostNamespace(home)
	if err != nil {
		return false
	}
	if ns == nil {
		return true
	}
	defer ns.Close()
	id, err := v.Net.GetNetNsIdByFd(int(ns.Fd()))
	return err == nil && id >= 0 && id == near.Attrs().NetNsID
}
