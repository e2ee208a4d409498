package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Network namespaces with names (NSID) are created when the first value in them is configured,
// unless they exist, in the way of `ip netns add`:
//
//	/var/run/netns/<name>   where the namespace is mounted
//	lo in it                is in the device group mark, which marks it as ours, and not another
//	                        agent's: several share the directory where nodes are network namespaces
//
// When the last value in such a namespace is deleted, so is the namespace, unless others
// have put something into it.

// netNSGroup is the last byte of the device group (IFLA_GROUP) of the loopbacks of namespaces that agents made.
const netNSGroup = 126

// The host's network namespace has hostCookie up to Linux 6.17. Since 6.18, namespaces of all kinds share cookies, so that its
// own depends on the version; it is known by hostInode there.
const (
	hostCookie = 1
	hostInode  = 0xEFFFFFF9 // less than any that the kernel chooses
)

const loopback = "lo"

// AcquireOrMake is Acquire that makes the namespace if it is one by name and not there.
func (s *Set) AcquireOrMake(ref *linux_namespace.NetNamespace) (*Namespace, error) {
	ns, err := s.Acquire(ref)
	if !errors.Is(err, ErrGone) || ref.GetType() != linux_namespace.NetNamespace_NSID {
		return ns, err
	}
	if err := s.makeNamed(ref.GetReference()); err != nil {
		return nil, fmt.Errorf("make network namespace %q: %w", ref.GetReference(), err)
	}
	return s.Acquire(ref)
}

// makeNamed creates a namespace. If another process creates the same one at the same time, theirs
// is left in place.
func (s *Set) makeNamed(name string) error {
	if err := shareMounts(s.namedDir); err != nil {
		return err
	}
	path := filepath.Join(s.namedDir, name)
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) && isEmptyFile(path) { // left by a reboot, or by one that was interrupted
		err = nil
	} else if err == nil {
		file.Close()
	}
	if err != nil {
		return err
	}
	if err := mountNewNetNS(path); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	ns, err := s.Acquire(&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: name})
	if err != nil {
		return err
	}
	defer s.Release(ns)
	lo, err := ns.LinkByName(loopback)
	if err != nil {
		return err
	}
	return ns.SetLink(lo.Attrs().Index, rtnl.LinkChange{Group: new(s.mark)})
}

// markOf returns the device group of the loopbacks of namespaces that the agent in a network namespace makes. It has the
// cookie of that one, which no other gets after its end, as inodes are. Agents of the host's network namespace write 0,
// as did those of former versions; so do all agents before Linux 5.14, which has no cookies.
func markOf(own *Namespace) uint32 {
	if own.ID.Ino == hostInode {
		return netNSGroup
	}
	cookie := uint64(hostCookie)
	_ = namespace.In(netns.NsHandle(own.fd), func() error {
		socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(socket)
		if c, err := unix.GetsockoptUint64(socket, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err == nil {
			cookie = c
		}
		return nil
	})
	return uint32(cookie-hostCookie)<<8 | netNSGroup
}

// marks reports whether a device is the loopback of a namespace of ours.
func (s *Set) marks(link *netlink.LinkAttrs) bool {
	return link.Name == loopback && link.Group == s.mark
}

func isEmptyFile(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode().IsRegular() && info.Size() == 0
}

// shareMounts lets all mount namespaces that share the directory see what is mounted in it.
func shareMounts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// It is no mount yet.
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// mountNewNetNS makes a namespace that stays.
func mountNewNetNS(path string) error {
	return namespace.InNew(func() error { return unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, "") })
}

// RemoveUnneeded removes the namespace that a value was in before it was deleted, if we made it and
// nothing is in it any more. inUse reports whether values remain in it.
func (s *Set) RemoveUnneeded(ref *linux_namespace.NetNamespace, inUse func(ID) bool) error {
	if ref.GetType() != linux_namespace.NetNamespace_NSID {
		return nil
	}
	unneeded, err := s.unneeded(ref, inUse)
	if err != nil || !unneeded {
		return err
	}
	path := filepath.Join(s.namedDir, ref.GetReference())
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("remove network namespace %q: %w", ref.GetReference(), err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove network namespace %q: %w", ref.GetReference(), err)
	}
	s.CloseIdle()
	return nil
}

// unneeded reports whether a namespace exists that we made and nothing is in.
func (s *Set) unneeded(ref *linux_namespace.NetNamespace, inUse func(ID) bool) (bool, error) {
	ns, err := s.Acquire(ref)
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer s.Release(ns)
	if ns == s.Own || inUse(ns.ID) {
		return false, nil
	}
	links, err := ns.Links()
	for _, l := range links {
		if !s.marks(l.Attrs()) && !(fallbackTunnels[l.Attrs().Name] && l.Attrs().Flags&net.FlagUp == 0) {
			return false, err
		}
	}
	return err == nil, err
}

// fallbackTunnels are the devices that modules of the kernel put into each namespace.
var fallbackTunnels = map[string]bool{
	"tunl0": true, "sit0": true, "ip6tnl0": true, "gre0": true, "gretap0": true, "erspan0": true, "ip_vti0": true, "ip6_vti0": true, "ip6gre0": true,
}

// Made are references to the namespaces by name that are ours.
func (s *Set) Made() (refs []*linux_namespace.NetNamespace) {
	entries, _ := os.ReadDir(s.namedDir) // none, if there is no directory
	for _, entry := range entries {
		ref := &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: entry.Name()}
		ns, err := s.Acquire(ref)
		if err != nil {
			continue
		}
		if lo, err := ns.LinkByName(loopback); err == nil && ns != s.Own && s.marks(lo.Attrs()) {
			refs = append(refs, ref)
		}
		s.Release(ns)
	}
	return refs
}
