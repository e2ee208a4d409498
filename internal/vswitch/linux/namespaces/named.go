package namespaces

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Named network namespaces (NSID) are created with their first value, like `ip netns add` does:
//
//	/var/run/netns/<name>   where the namespace is mounted
//	lo in it                is in the device group mark, which marks it as ours, and not another
//	                        agent's: several share the directory where nodes are network namespaces
//
// A namespace is deleted with its last value, unless it contains foreign objects.

// netNSGroup is the last byte of the device group (IFLA_GROUP) of the loopbacks in namespaces made
// by agents.
const netNSGroup = 126

// Up to Linux 6.17, hostCookie identifies the host's network namespace. Since 6.18, all namespace
// types share one cookie sequence, so hostInode identifies it.
const (
	hostCookie = 1
	hostInode  = 0xEFFFFFF9 // below all inodes that the kernel assigns
)

const loopback = "lo"

// AcquireOrMake is Acquire that creates a missing named namespace.
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

// makeNamed creates a namespace. If another process creates it at the same time, that one stays.
func (s *Set) makeNamed(name string) error {
	if err := shareMounts(s.namedDir); err != nil {
		return err
	}
	path := filepath.Join(s.namedDir, name)
	file, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|os.O_EXCL, 0)
	if errors.Is(err, fs.ErrExist) && isEmptyFile(path) { // left by a reboot or an interrupted creation
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

// markOf returns the device group for the loopbacks of namespaces made by the agent of namespace
// own. It contains the cookie of own, which is never reused, unlike inodes. It is netNSGroup alone
// for the host's network namespace, as in earlier versions, and before Linux 5.14, which has no
// cookies.
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

// shareMounts makes mounts in the directory visible in all mount namespaces that share it.
func shareMounts(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	err := unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
	if !errors.Is(err, unix.EINVAL) {
		return err
	}
	// The directory is not a mount point yet.
	if err := unix.Mount(dir, dir, "none", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return unix.Mount("", dir, "none", unix.MS_SHARED|unix.MS_REC, "")
}

// mountNewNetNS creates a persistent namespace.
func mountNewNetNS(path string) error {
	return namespace.InNew(func() error { return unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, "") })
}

// RemoveUnneeded removes the namespace of a deleted value if we made it and it is empty. inUse
// reports whether values remain in it.
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

// unneeded reports whether a namespace exists that we made and that is empty.
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

// fallbackTunnels lists the devices that kernel modules create in each namespace.
var fallbackTunnels = map[string]bool{
	"tunl0": true, "sit0": true, "ip6tnl0": true, "gre0": true, "gretap0": true, "erspan0": true, "ip_vti0": true, "ip6_vti0": true, "ip6gre0": true,
}

// Made returns references to the named namespaces that we made.
func (s *Set) Made() (refs []*linux_namespace.NetNamespace) {
	entries, _ := os.ReadDir(s.namedDir) // empty if the directory is missing
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
