package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/netlink/rtnl"
	"golang.org/x/sys/unix"
)

// Network namespaces with names (NSID) are created when the first value in them is configured,
// unless they exist, in the way of `ip netns add`:
//
//	/var/run/netns/<name>   where the namespace is mounted
//	lo in it                is in the device group netNSGroup, which marks it as ours
//
// When the last value in such a namespace is deleted, so is the namespace, unless others
// have put something into it.

// netNSGroup is the device group (IFLA_GROUP) of the loopbacks of namespaces of ours.
const netNSGroup = 126

// acquireOrMake is acquire that makes the namespace if it is one by name and not there.
func (n *namespaces) acquireOrMake(ref *linux_namespace.NetNamespace) (*netNS, error) {
	ns, err := n.acquire(ref)
	if !errors.Is(err, ErrNamespaceGone) || ref.GetType() != linux_namespace.NetNamespace_NSID {
		return ns, err
	}
	if err := n.makeNamed(ref.GetReference()); err != nil {
		return nil, fmt.Errorf("make network namespace %q: %w", ref.GetReference(), err)
	}
	return n.acquire(ref)
}

// makeNamed creates a namespace. If another process creates the same one at the same time, theirs
// is left in place.
func (n *namespaces) makeNamed(name string) error {
	if err := shareMounts(n.namedDir); err != nil {
		return err
	}
	path := filepath.Join(n.namedDir, name)
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
	ns, err := n.acquire(&linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: name})
	if err != nil {
		return err
	}
	defer n.release(ns)
	lo, err := ns.linkByName(loopbackName)
	if err != nil {
		return err
	}
	return ns.SetLink(lo.Attrs().Index, rtnl.LinkChange{Group: new(uint32(netNSGroup))})
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

// mountNewNetNS makes a namespace. Its thread goes back to where it was: the first thread
// of the process does not end with its goroutine, and would keep the namespace.
func mountNewNetNS(path string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			done <- err
			return
		}
		defer unix.Close(home)
		if err = unix.Unshare(unix.CLONE_NEWNET); err == nil {
			err = unix.Mount("/proc/thread-self/ns/net", path, "none", unix.MS_BIND, "")
		}
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// removeUnneeded removes the namespace of a value that was deleted, if we made it and
// nothing is in it any more.
func (p *Plugin) removeUnneeded(ref *linux_namespace.NetNamespace) error {
	if ref.GetType() != linux_namespace.NetNamespace_NSID {
		return nil
	}
	ns, err := p.namespaces.acquire(ref)
	if errors.Is(err, ErrNamespaceGone) {
		return nil
	}
	if err != nil {
		return err
	}
	links, err := ns.links()
	unneeded := err == nil && ns != p.namespaces.own && len(p.inventory.devicesIn(ns.id)) == 0 && len(p.inventory.ruleChainsIn(ns.id)) == 0
	for _, l := range links {
		ours := l.Attrs().Name == loopbackName && l.Attrs().Group == netNSGroup
		unneeded = unneeded && (ours || fallbackTunnels[l.Attrs().Name] && !isUp(l))
	}
	p.namespaces.release(ns)
	if err != nil || !unneeded {
		return err
	}
	path := filepath.Join(p.namespaces.namedDir, ref.GetReference())
	if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("remove network namespace %q: %w", ref.GetReference(), err)
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("remove network namespace %q: %w", ref.GetReference(), err)
	}
	p.namespaces.closeIdle()
	return nil
}

// fallbackTunnels are the devices that modules of the kernel put into each namespace.
var fallbackTunnels = map[string]bool{
	"tunl0": true, "sit0": true, "ip6tnl0": true, "gre0": true, "gretap0": true, "erspan0": true, "ip_vti0": true, "ip6_vti0": true, "ip6gre0": true,
}

// made are references to the namespaces by name that are ours.
func (n *namespaces) made() (refs []*linux_namespace.NetNamespace) {
	entries, _ := os.ReadDir(n.namedDir) // none, if there is no directory
	for _, entry := range entries {
		ref := &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_NSID, Reference: entry.Name()}
		ns, err := n.acquire(ref)
		if err != nil {
			continue
		}
		if lo, err := ns.linkByName(loopbackName); err == nil && ns != n.own && lo.Attrs().Group == netNSGroup {
			refs = append(refs, ref)
		}
		n.release(ns)
	}
	return refs
}
