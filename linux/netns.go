package linux

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/netlink/rtnl"
	"github.com/contiv/contiv/nsfile"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// idleTime is how long an unused namespace stays open: the operations that
	// wire one pod follow each other.
	idleTime = time.Second
	// maxIdle bounds the number of namespaces that are open but unused.
	maxIdle = 64
)

// nsID identifies a network namespace for as long as it exists.
type nsID struct{ dev, ino uint64 }

// namespaces opens network namespaces and shares them among their users.
type namespaces struct {
	namedDir string
	// own is the namespace of the agent. It is always open.
	own *netNS
	// microservices have namespaces of the type MICROSERVICE.
	microservices microservices

	mu     sync.Mutex
	open   map[nsID]*netNS
	closed bool
	fault  rtnl.Fault // of tests
}

// netNS is an open network namespace with a connection to its kernel. It may be used
// concurrently.
type netNS struct {
	*rtnl.Conn
	id nsID
	fd int
	// name is for people: "network namespace /var/run/netns/x".
	name string
	// number is that in the agent's own namespace, plus 1; 0: it was not asked for, or has none.
	number atomic.Int64

	// Guarded by namespaces.mu.
	users int
	timer *time.Timer
}

// newNamespaces opens the agent's own namespace: the given path, or the one of
// the calling thread.
func newNamespaces(ownPath, namedDir string) (*namespaces, error) {
	if ownPath == "" {
		ownPath = "/proc/thread-self/ns/net"
	}
	fd, id, err := openNetNS(ownPath)
	if err != nil {
		return nil, fmt.Errorf("open the agent's own network namespace: %w", err)
	}
	own, err := newNetNS(fd, id, "the agent's network namespace")
	if err != nil {
		return nil, err
	}
	return &namespaces{namedDir: namedDir, own: own, open: map[nsID]*netNS{}}, nil
}

// path returns the file that stands for a namespace, "" for the agent's own.
func (n *namespaces) path(ref *linux_namespace.NetNamespace) (string, error) {
	path, ok := models.NetNSPath(ref, n.namedDir)
	if !ok {
		return n.microservices.path(ref.GetReference())
	}
	return path, nil
}

// acquire opens a namespace; release it. ErrNamespaceGone if there is none.
func (n *namespaces) acquire(ref *linux_namespace.NetNamespace) (*netNS, error) {
	path, err := n.path(ref)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return n.own, nil
	}
	if ns := n.reuse(path); ns != nil {
		return ns, nil
	}
	fd, id, err := openNetNS(path)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		unix.Close(fd)
		return nil, errors.New("network namespaces are closed")
	}
	ns := n.open[id]
	if id == n.own.id {
		ns = n.own
	}
	if ns != nil {
		unix.Close(fd)
	} else {
		if ns, err = newNetNS(fd, id, "network namespace "+path); err != nil {
			return nil, err
		}
		ns.InjectFaults(n.fault)
		n.open[id] = ns
	}
	ns.use()
	return ns, nil
}

// reuse uses the namespace at a path if it is open: as long as it is, no other namespace has its
// identity, so that nothing needs to be opened to compare them. Otherwise it returns nil.
func (n *namespaces) reuse(path string) *netNS {
	at, err := nsfile.Stat(path)
	if err != nil {
		return nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ns := n.open[nsID{dev: at.Dev, ino: at.Ino}]
	if ns == nil || n.closed {
		return nil
	}
	ns.use()
	return ns
}

// use counts a user. The caller holds the lock.
func (ns *netNS) use() {
	ns.users++
	if ns.timer != nil {
		ns.timer.Stop()
	}
}

// release ends the use of a namespace, which is closed after idleTime without use.
func (n *namespaces) release(ns *netNS) {
	if ns == n.own {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	ns.users--
	switch {
	case ns.users > 0:
	case n.closed || len(n.open) > maxIdle:
		n.closeLocked(ns)
	default:
		ns.timer = time.AfterFunc(idleTime, func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			if ns.users == 0 && n.open[ns.id] == ns {
				n.closeLocked(ns)
			}
		})
	}
}

// identify returns the identity of a namespace without keeping it open.
func (n *namespaces) identify(ref *linux_namespace.NetNamespace) (nsID, error) {
	path, err := n.path(ref)
	if err != nil || path == "" {
		return n.own.id, err
	}
	fd, id, err := openNetNS(path)
	if err != nil {
		return nsID{}, err
	}
	unix.Close(fd)
	return id, nil
}

// closeIdle closes the unused namespaces.
func (n *namespaces) closeIdle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, ns := range n.open {
		if ns.users == 0 {
			n.closeLocked(ns)
		}
	}
}

// close closes all namespaces; those in use when they are released.
func (n *namespaces) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	n.closeIdle()
	n.own.close()
}

func (n *namespaces) closeLocked(ns *netNS) {
	if ns.timer != nil {
		ns.timer.Stop()
	}
	delete(n.open, ns.id)
	ns.close()
}

// newNetNS opens the sockets; it takes over the file descriptor.
func newNetNS(fd int, id nsID, name string) (*netNS, error) {
	ns := &netNS{id: id, fd: fd, name: name}
	conn, err := rtnl.New(ns.handle())
	if err != nil {
		ns.close()
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	ns.Conn = conn
	return ns, nil
}

// handle returns the namespace for packages that take it open.
func (ns *netNS) handle() netns.NsHandle { return netns.NsHandle(ns.fd) }

func (ns *netNS) close() {
	if ns.Conn != nil {
		ns.Conn.Close()
	}
	unix.Close(ns.fd)
}

// enter calls fn on a thread that is in the namespace. A thread that cannot be
// brought back ends with its goroutine, so that no other goroutine gets it.
func (ns *netNS) enter(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("open the thread's network namespace: %w", err)
			return
		}
		defer unix.Close(home)
		if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("enter %s: %w", ns.name, err)
			return
		}
		err = fn()
		if unix.Setns(home, unix.CLONE_NEWNET) == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// openNetNS opens a file that stands for a network namespace. What can never be one
// is as good as one that does not exist.
func openNetNS(path string) (int, nsID, error) {
	file, err := nsfile.Open(path)
	if errors.Is(err, nsfile.ErrNone) || errors.Is(err, nsfile.ErrOther) {
		return -1, nsID{}, goneError{err}
	}
	if err != nil {
		return -1, nsID{}, err
	}
	defer file.Close()
	id, err := nsfile.Identify(file)
	if err != nil {
		return -1, nsID{}, err
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, nsID{}, fmt.Errorf("open network namespace %q: %w", path, err)
	}
	return fd, nsID{dev: id.Dev, ino: id.Ino}, nil
}

// goneError is an ErrNamespaceGone in the words of its cause.
type goneError struct{ cause error }

func (e goneError) Error() string   { return e.cause.Error() }
func (e goneError) Unwrap() []error { return []error{ErrNamespaceGone, e.cause} }
