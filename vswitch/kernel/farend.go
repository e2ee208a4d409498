package kernel

import (
	"errors"
	"fmt"
	"os"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/vswitch"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

// farEnd is where the other end of a veth pair is made.
type farEnd struct {
	name string
	// ns is an open network namespace; nil: ours.
	ns *os.File
}

func (f farEnd) close() {
	if f.ns != nil {
		f.ns.Close()
	}
}

// String is for error messages.
func (f farEnd) String() string {
	if f.ns == nil {
		return f.name
	}
	return f.name + " in network namespace " + f.ns.Name()
}

// farEndOf says where the far end of a TAP is made; close it.
func (v *VSwitch) farEndOf(iface *vpp_interfaces.Interface) (far farEnd, err error) {
	far.name = iface.GetTap().GetHostIfName()
	if far.name == "" {
		far.name = models.TapHostIfName(iface.GetName())
	}
	if len(far.name) > maxDeviceName {
		return far, fmt.Errorf("tap.host_if_name %q is too long: use at most %d characters", far.name, maxDeviceName)
	}
	far.ns, err = v.openHostNamespace(iface.GetTap().GetHostNamespace())
	return far, err
}

// openHostNamespace opens a namespace; nil if it is ours. It must be closed at
// once: an open namespace outlives its pod.
func (v *VSwitch) openHostNamespace(ref *linux_namespace.NetNamespace) (*os.File, error) {
	path, ok := models.NetNSPath(ref, models.NetNSDir)
	switch {
	case !ok:
		return nil, vswitch.Unsupported("tap.host_namespace of microservice %q: refer to it by FD, PID or NSID", ref.GetReference())
	case path == "":
		return nil, nil
	}
	file, err := os.Open(path)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("tap.host_namespace %s: %w", path, vswitch.ErrNamespaceGone)
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

// isOwn tells if an open network namespace is ours.
func (v *VSwitch) isOwn(file *os.File) (bool, error) {
	var fs unix.Statfs_t
	var here, there unix.Stat_t
	fd := int(file.Fd())
	if err := errors.Join(unix.Fstatfs(fd, &fs), unix.Fstat(fd, &there), unix.Fstat(int(v.ns.handle), &here)); err != nil {
		return false, fmt.Errorf("tap.host_namespace %s: %w", file.Name(), err)
	}
	// The file of a named namespace stays as an ordinary one when that is unmounted.
	if fs.Type != unix.NSFS_MAGIC {
		return false, fmt.Errorf("tap.host_namespace %s: %w: the file is not a namespace (any more)", file.Name(), vswitch.ErrNamespaceGone)
	}
	return here.Dev == there.Dev && here.Ino == there.Ino, nil
}

// tapLink returns the parameters of the TAP whose near end the link is. But for
// the place of the far end, nothing of them can be read back from a veth pair, and
// nothing but the name of the far end had an effect. A far end that was made in
// our namespace may be anywhere: a Linux interface takes it to where it belongs.
func (v *VSwitch) tapLink(expected *vpp_interfaces.Interface, near netlink.Link) *vpp_interfaces.TapLink {
	if expected.GetTap() == nil {
		return &vpp_interfaces.TapLink{Version: 2}
	}
	tap := proto.CloneOf(expected.GetTap())
	if !v.atHome(near, tap.GetHostNamespace()) {
		tap.HostNamespace = nil
		if id := near.Attrs().NetNsID; id >= 0 {
			tap.HostNamespace = &linux_namespace.NetNamespace{
				Type: linux_namespace.NetNamespace_NSID, Reference: fmt.Sprintf("%snsid-%d", unknownPrefix, id),
			}
		}
	}
	return tap
}

// atHome tells if the other end of a veth is in the namespace where it was to be
// made. The kernel names that by a number which belongs to our namespace.
func (v *VSwitch) atHome(near netlink.Link, home *linux_namespace.NetNamespace) bool {
	ns, err := v.openHostNamespace(home)
	if err != nil {
		return false
	}
	if ns == nil {
		return true
	}
	defer ns.Close()
	id, err := v.nl.GetNetNsIdByFd(int(ns.Fd()))
	return err == nil && id >= 0 && id == near.Attrs().NetNsID
}
