// Package events receives the kernel's notifications about changes in a network namespace and in
// other namespaces with an ID in it:
//
//	rtnetlink, nftables ──groups──> socket ──Receive──> Datagram: messages and source namespace
//	                                   └── full ──────> ErrLost: read the state again
//
// It decodes only message headers; packages rtnl and nft decode the rest.
package events

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ErrLost is returned by Receive if the kernel dropped events.
var ErrLost = errors.New("kernel events were lost")

// OwnNamespace is the Namespace of events of the subscriber's own network namespace.
const OwnNamespace = -1

// Options of a subscription.
type Options struct {
	// Groups are multicast groups of the protocol, e.g. unix.RTNLGRP_LINK.
	Groups []uint
	// AllNamespaces also subscribes to the namespaces with an ID in the subscriber's namespace.
	// Subscription.AllNamespaces reports whether the kernel supports it.
	AllNamespaces bool
	// Buffer is the size of the receive buffer in bytes; 0: DefaultBuffer.
	Buffer int
	// Fault, for tests, is called for each datagram. If it returns an error, Receive returns that
	// instead of the datagram.
	Fault func() error
}

// DefaultBuffer holds the events of a burst, such as the removal of hundreds of pods.
const DefaultBuffer = 8 << 20

// Subscription is a socket that receives events. One goroutine at a time may receive; any may Close
// it.
type Subscription struct {
	// AllNamespaces: events of other namespaces are received
	AllNamespaces bool

	fault           func() error
	buffer, control []byte

	// use is held while the descriptors are in use: Close waits for it. The socket is not
	// registered with the poller of the Go runtime, which would wake up a thread for each event.
	use    sync.Mutex
	socket int
	// ended is an eventfd that is readable after Close, when done is closed.
	ended int
	done  chan struct{}
	close sync.Once

	lull, patience time.Duration
	// after is time.After except in tests.
	after func(time.Duration) <-chan time.Time
}

// Changes come in bursts: wiring a pod causes dozens of events. Reading each at once would
// interrupt their author and compare with a configuration in change.
const (
	// defaultLull is the time without events after which Receive returns.
	defaultLull = 20 * time.Millisecond
	// defaultPatience limits how long Receive waits for a lull.
	defaultPatience = 250 * time.Millisecond
)

// Datagram is a unit of delivery.
type Datagram struct {
	Messages []syscall.NetlinkMessage
	// Namespace is the ID in the subscriber's namespace of the namespace that the events are from.
	// Events of the subscriber's own namespace have OwnNamespace, or its ID in itself if assigned.
	Namespace int
}

// Subscribe subscribes to groups of a protocol (unix.NETLINK_…) in a network namespace.
func Subscribe(ns netns.NsHandle, protocol int, o Options) (*Subscription, error) {
	socket, err := open(ns, protocol)
	if err != nil {
		return nil, fmt.Errorf("subscribe to kernel events: %w", err)
	}
	ended, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(socket)
		return nil, fmt.Errorf("subscribe to kernel events: %w", err)
	}
	s := &Subscription{
		socket: socket, ended: ended, done: make(chan struct{}), fault: o.Fault, buffer: make([]byte, 1<<16), control: make([]byte, 256),
		lull: defaultLull, patience: defaultPatience, after: time.After,
	}
	if err = s.bind(socket, o); err != nil {
		s.Close()
		return nil, fmt.Errorf("subscribe to kernel events: %w", err)
	}
	return s, nil
}

func open(ns netns.NsHandle, protocol int) (int, error) {
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), protocol)
	if err != nil {
		return -1, err
	}
	defer s.Close()
	fd, err := unix.FcntlInt(uintptr(s.GetFd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (s *Subscription) bind(socket int, o Options) error {
	if o.AllNamespaces {
		s.AllNamespaces = unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, 1) == nil
	}
	size := o.Buffer
	if size == 0 {
		size = DefaultBuffer
	}
	// A smaller buffer may lose events, which Receive reports.
	if unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, size) != nil {
		_ = unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_RCVBUF, size)
	}
	for _, group := range o.Groups {
		if err := unix.SetsockoptInt(socket, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, int(group)); err != nil {
			return fmt.Errorf("group %d: %w", group, err)
		}
	}
	return nil
}

// Close ends the subscription. A pending Receive returns os.ErrClosed.
func (s *Subscription) Close() {
	s.close.Do(func() {
		close(s.done)
		_, _ = unix.Write(s.ended, binary.NativeEndian.AppendUint64(nil, 1)) // cannot fail: it is never read
		s.use.Lock()
		defer s.use.Unlock()
		unix.Close(s.socket)
		unix.Close(s.ended)
	})
}

func (s *Subscription) closed() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Receive returns the next datagram, after a lull in the events. It returns os.ErrDeadlineExceeded
// if none has arrived by the deadline (zero: none); ErrLost, after which it may be called again;
// and os.ErrClosed.
func (s *Subscription) Receive(deadline time.Time) (Datagram, error) {
	s.use.Lock()
	defer s.use.Unlock()
	for {
		d, some, err := s.queued()
		if some || err != nil {
			return d, err
		}
		if err := s.wait(deadline); err != nil {
			return d, err
		}
		s.gather()
	}
}

// Collect receives events until the subscription fails, or with os.ErrClosed is closed. It calls
// note with each datagram or loss. If note returns true, Collect calls flush after the delay. It
// also calls flush once at the start, and again after the duration that flush returns, unless 0.
func (s *Subscription) Collect(delay time.Duration, note func(d Datagram, lost bool) bool, flush func() time.Duration) error {
	due := time.Now()
	for {
		d, err := s.Receive(due)
		lost := errors.Is(err, ErrLost)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
		case err != nil && !lost:
			return err
		case note(d, lost) && due.IsZero():
			due = time.Now().Add(delay)
		}
		if !due.IsZero() && !time.Now().Before(due) { // even if events keep coming
			due = time.Time{}
			if again := flush(); again > 0 {
				due = time.Now().Add(again)
			}
		}
	}
}

// wait returns when events may be readable.
func (s *Subscription) wait(deadline time.Time) error {
	timeout := time.Duration(-1)
	if !deadline.IsZero() {
		timeout = max(time.Until(deadline), 0)
	}
	some, err := s.poll(timeout, s.ended, s.socket)
	if err == nil && !some {
		err = os.ErrDeadlineExceeded
	}
	return err
}

// gather waits for a lull, a half full receive buffer, the end of patience, or Close.
func (s *Subscription) gather() {
	end := time.Now().Add(s.patience)
	for before, _ := s.fill(); ; {
		left := time.Until(end)
		if left <= 0 {
			return
		}
		select {
		case <-s.done:
			return
		case <-s.after(min(s.lull, left)):
		}
		filled, size := s.fill()
		if filled == before || filled > size/2 {
			return
		}
		before = filled
	}
}

// fill returns the used part and the size of the receive buffer, in bytes. Both are 0 before Linux
// 4.12.
func (s *Subscription) fill() (filled, size uint32) {
	var info struct{ allocated, buffer, _, _, _, _, _, _, _ uint32 } // SK_MEMINFO_… of linux/sock_diag.h
	length := uint32(unsafe.Sizeof(info))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.socket), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return 0, 0
	}
	return info.allocated, info.buffer
}

// poll waits until one of the descriptors is readable; it returns false after the timeout, unless
// that is negative.
func (s *Subscription) poll(timeout time.Duration, descriptors ...int) (some bool, err error) {
	fds := make([]unix.PollFd, len(descriptors))
	for i, fd := range descriptors {
		fds[i] = unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	}
	var limit *unix.Timespec
	if timeout >= 0 {
		limit = new(unix.NsecToTimespec(timeout.Nanoseconds()))
	}
	n, err := unix.Ppoll(fds, limit, nil)
	if errors.Is(err, unix.EINTR) {
		return true, nil // check again
	}
	return n > 0, err
}

// Queued returns received events without waiting; some is false if none are queued.
func (s *Subscription) Queued() (d Datagram, some bool, err error) {
	s.use.Lock()
	defer s.use.Unlock()
	return s.queued()
}

func (s *Subscription) queued() (d Datagram, some bool, err error) {
	for {
		if s.closed() {
			return d, false, os.ErrClosed
		}
		d, err := s.read(s.socket)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return Datagram{}, false, nil
		case err != nil || len(d.Messages) > 0:
			return d, true, err
		}
	}
}

// read reads one datagram; it is empty if the sender is not the kernel.
func (s *Subscription) read(socket int) (d Datagram, err error) {
	n, controlled, _, from, err := unix.Recvmsg(socket, s.buffer, s.control, unix.MSG_DONTWAIT)
	for errors.Is(err, unix.EINTR) {
		n, controlled, _, from, err = unix.Recvmsg(socket, s.buffer, s.control, unix.MSG_DONTWAIT)
	}
	if errors.Is(err, unix.ENOBUFS) {
		return d, ErrLost
	}
	if err != nil {
		return d, err
	}
	if kernel, ok := from.(*unix.SockaddrNetlink); !ok || kernel.Pid != nl.PidKernel {
		return d, nil
	}
	if s.fault != nil {
		if err := s.fault(); err != nil {
			return d, err
		}
	}
	d.Namespace = sender(s.control[:controlled])
	d.Messages, err = syscall.ParseNetlinkMessage(slices.Clone(s.buffer[:n]))
	if err != nil { // as good as lost
		return Datagram{}, fmt.Errorf("%w: %w", ErrLost, err)
	}
	return d, nil
}

func sender(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return OwnNamespace
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_NETLINK && m.Header.Type == unix.NETLINK_LISTEN_ALL_NSID && len(m.Data) >= 4 {
			return int(int32(binary.NativeEndian.Uint32(m.Data)))
		}
	}
	return OwnNamespace
}
