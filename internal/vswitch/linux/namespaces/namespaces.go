// Package namespaces opens the network namespaces of values, shares them between users, creates
// named ones, and identifies the namespace of a kernel event.
//
//	NetNamespace ──Acquire──> Namespace: a connection to its kernel, until Release
//	             ──Identify─> ID: equal as long as the namespace exists
//	a number in an event ──ByNumber──> ID, of namespaces that Track was called for
//
// A locked thread enters a namespace only to open a socket. Namespaces stay open only while in use
// and shortly after, so that a removed pod's namespace is not kept alive.
package namespaces

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nsfile"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/models"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
)

const (
	// idleTime is how long an unused namespace stays open, for the operations that follow each
	// other when a pod is connected.
	idleTime = time.Second
	// maxIdle bounds the number of open but unused namespaces.
	maxIdle = 64
)

// ID identifies a network namespace for its lifetime.
type ID = nsfile.ID

// ErrGone reports that a network namespace does not exist. Its contents are gone too: Delete
// succeeds and Retrieve finds nothing.
var ErrGone = errors.New("network namespace does not exist")

// Set opens network namespaces and shares them between users.
type Set struct {
	// Own is the agent's namespace. It is always open.
	Own *Namespace

	namedDir string
	// microservice returns the namespace path of a microservice.
	microservice func(label string) (path string, known bool)
	numbers      numbers
	mark         uint32 // see named.go

	mu     sync.Mutex
	open   map[ID]*Namespace
	closed bool
	fault  rtnl.Fault // of tests
}

// Namespace is an open network namespace with a connection to its kernel. It may be used
// concurrently.
type Namespace struct {
	*rtnl.Conn
	ID ID
	// Name is for messages: "network namespace /var/run/netns/x".
	Name string

	fd int
	// number is the namespace's number in the agent's namespace plus 1; 0 if unknown or none.
	number atomic.Int64

	// Guarded by Set.mu.
	users int
	timer *time.Timer
}

// Open opens the agent's namespace at ownPath, or that of the calling thread if ownPath is empty.
// namedDir holds the named namespaces. microservice returns the namespace path of a microservice.
func Open(ownPath, namedDir string, microservice func(label string) (path string, known bool)) (*Set, error) {
	if ownPath == "" {
		ownPath = "/proc/thread-self/ns/net"
	}
	fd, id, err := openFile(ownPath)
	if err != nil {
		return nil, fmt.Errorf("open the agent's own network namespace: %w", err)
	}
	own, err := newNamespace(fd, id, "the agent's network namespace")
	if err != nil {
		return nil, err
	}
	return &Set{Own: own, namedDir: namedDir, microservice: microservice, mark: markOf(own), open: map[ID]*Namespace{}}, nil
}

// path returns the file of a namespace, "" for the agent's own.
func (s *Set) path(ref *linux_namespace.NetNamespace) (string, error) {
	path, ok := models.NetNSPath(ref, s.namedDir)
	if ok {
		return path, nil
	}
	if path, ok = s.microservice(ref.GetReference()); !ok {
		return "", goneError{fmt.Errorf("no microservice %q runs on this node", ref.GetReference())}
	}
	return path, nil
}

// Acquire opens a namespace; the caller releases it. It returns ErrGone if none exists.
func (s *Set) Acquire(ref *linux_namespace.NetNamespace) (*Namespace, error) {
	path, err := s.path(ref)
	if err != nil {
		return nil, err
	}
	if path == "" {
		return s.Own, nil
	}
	if ns := s.reuse(path); ns != nil {
		return ns, nil
	}
	fd, id, err := openFile(path)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		unix.Close(fd)
		return nil, errors.New("network namespaces are closed")
	}
	ns := s.open[id]
	if id == s.Own.ID {
		ns = s.Own
	}
	if ns != nil {
		unix.Close(fd)
	} else {
		if ns, err = newNamespace(fd, id, "network namespace "+path); err != nil {
			return nil, err
		}
		ns.InjectFaults(s.fault)
		s.open[id] = ns
	}
	ns.use()
	return ns, nil
}

// reuse returns the open namespace at a path, or nil. While it is open, no other namespace has its
// identity, so the path need not be opened to compare them.
func (s *Set) reuse(path string) *Namespace {
	at, err := nsfile.Stat(path)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ns := s.open[at]
	if ns == nil || s.closed {
		return nil
	}
	ns.use()
	return ns
}

// use adds a user. The caller holds the lock.
func (ns *Namespace) use() {
	ns.users++
	if ns.timer != nil {
		ns.timer.Stop()
	}
}

// Release ends one use of a namespace. It is closed after idleTime without use.
func (s *Set) Release(ns *Namespace) {
	if ns == s.Own {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ns.users--
	switch {
	case ns.users > 0:
	case s.closed || len(s.open) > maxIdle:
		s.closeLocked(ns)
	default:
		ns.timer = time.AfterFunc(idleTime, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if ns.users == 0 && s.open[ns.ID] == ns {
				s.closeLocked(ns)
			}
		})
	}
}

// Identify returns the identity of a namespace without keeping it open.
func (s *Set) Identify(ref *linux_namespace.NetNamespace) (ID, error) {
	path, err := s.path(ref)
	if err != nil || path == "" {
		return s.Own.ID, err
	}
	fd, id, err := openFile(path)
	if err != nil {
		return ID{}, err
	}
	unix.Close(fd)
	return id, nil
}

func (s *Set) CloseIdle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ns := range s.open {
		if ns.users == 0 {
			s.closeLocked(ns)
		}
	}
}

// InjectFaults calls rtnl.Conn.InjectFaults for all namespaces, for tests.
func (s *Set) InjectFaults(f rtnl.Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
	s.Own.InjectFaults(f)
	for _, ns := range s.open {
		ns.InjectFaults(f)
	}
}

// Close closes all namespaces. A namespace in use closes when it is released.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.CloseIdle()
	s.Own.close()
}

func (s *Set) closeLocked(ns *Namespace) {
	if ns.timer != nil {
		ns.timer.Stop()
	}
	delete(s.open, ns.ID)
	ns.close()
}

// newNamespace opens the sockets. It owns fd.
func newNamespace(fd int, id ID, name string) (*Namespace, error) {
	ns := &Namespace{ID: id, fd: fd, Name: name}
	conn, err := rtnl.New(ns.Handle())
	if err != nil {
		ns.close()
		return nil, fmt.Errorf("open netlink in %s: %w", name, err)
	}
	ns.Conn = conn
	return ns, nil
}

// Handle returns the namespace's file descriptor for other packages.
func (ns *Namespace) Handle() netns.NsHandle { return netns.NsHandle(ns.fd) }

func (ns *Namespace) close() {
	if ns.Conn != nil {
		ns.Conn.Close()
	}
	unix.Close(ns.fd)
}

// Enter calls fn on a thread that is in the namespace.
func (ns *Namespace) Enter(fn func() error) error {
	return namespace.In(ns.Handle(), fn)
}

// openFile opens a network namespace file. A file of another kind counts as missing.
func openFile(path string) (int, ID, error) {
	file, err := nsfile.Open(path)
	if errors.Is(err, nsfile.ErrNone) || errors.Is(err, nsfile.ErrOther) {
		return -1, ID{}, goneError{err}
	}
	if err != nil {
		return -1, ID{}, err
	}
	defer file.Close()
	id, err := nsfile.Identify(file)
	if err != nil {
		return -1, ID{}, err
	}
	fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, ID{}, fmt.Errorf("open network namespace %q: %w", path, err)
	}
	return fd, id, nil
}

// goneError is an ErrGone with the text of its cause.
type goneError struct{ cause error }

func (e goneError) Error() string   { return e.cause.Error() }
func (e goneError) Unwrap() []error { return []error{ErrGone, e.cause} }

// Same reports whether two references are equal. An undefined one is the agent's own namespace,
// whatever its text.
func Same(a, b *linux_namespace.NetNamespace) bool {
	if a.GetType() == linux_namespace.NetNamespace_UNDEFINED || b.GetType() == linux_namespace.NetNamespace_UNDEFINED {
		return a.GetType() == b.GetType()
	}
	return proto.Equal(a, b)
}
