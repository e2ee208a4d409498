package rtnl

import (
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// answerBuffer holds any answer: the kernel fills at most 32 KiB of a dump.
const answerBuffer = 64 << 10

// buffers are shared by all sockets, since sockets are as many as pods. (netlink.Handle allocates
// 64 KiB per received message; wiring a pod takes dozens.)
var buffers = sync.Pool{New: func() any { return new([answerBuffer]byte) }}

// socket sends requests and receives their answers.
type socket struct {
	mu  sync.Mutex // held from sending requests to their last answer
	fd  int
	seq uint32
}

// openSocket opens a socket in the namespace of the thread.
func openSocket() (*socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return nil, err
	}
	// With strict checking the kernel filters dumps. Kernels without it send more, which callers
	// filter.
	_ = unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, 1)
	return &socket{fd: fd}, nil
}

// close waits for the requests in progress.
func (s *socket) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	unix.Close(s.fd)
	s.fd = -1
}

// ask sends a request and returns the payloads of its answers of a type; 0: of any type.
func (s *socket) ask(req *nl.NetlinkRequest, answers uint16) (payloads [][]byte, err error) {
	errs := s.exchange([]*nl.NetlinkRequest{req}, func(_ int, typ uint16, payload []byte) {
		if answers == 0 || typ == answers {
			payloads = append(payloads, slices.Clone(payload))
		}
	})
	return payloads, errs[0]
}

// exchange sends a few requests at once; their answers must fit into the socket's receive buffer.
// The kernel executes all of them in order, even after an error. exchange returns the error of
// each. It calls answer with the index of the request, and the type and payload of each answer; the
// payload is valid during the call.
func (s *socket) exchange(reqs []*nl.NetlinkRequest, answer func(i int, typ uint16, payload []byte)) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &exchange{reqs: reqs, errs: make([]error, len(reqs)), ended: make([]bool, len(reqs)), open: len(reqs), first: s.seq + 1, answer: answer}
	buffer := buffers.Get().(*[answerBuffer]byte)
	defer buffers.Put(buffer)
	var data []byte
	for _, req := range reqs {
		s.seq++
		req.Seq = s.seq
		data = append(data, req.Serialize()...)
		data = append(data, make([]byte, -len(data)&3)...)
	}
	if err := retryInterrupted(func() error { return unix.Sendto(s.fd, data, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) }); err != nil {
		e.endAll(err)
	}
	for e.open > 0 {
		var n int
		var from unix.Sockaddr
		err := retryInterrupted(func() (err error) {
			n, from, err = unix.Recvfrom(s.fd, buffer[:], unix.MSG_TRUNC)
			return err
		})
		sender, _ := from.(*unix.SockaddrNetlink)
		switch {
		case err != nil: // ENOBUFS: answers were lost
			e.endAll(err)
		case n > len(buffer):
			e.endAll(fmt.Errorf("the kernel's answer has %d bytes, more than %d", n, len(buffer)))
		case sender != nil && sender.Pid == nl.PidKernel:
			e.receive(buffer[:n])
		}
	}
	return e.errs
}

func retryInterrupted(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// exchange holds requests that were sent together.
type exchange struct {
	reqs   []*nl.NetlinkRequest
	errs   []error
	ended  []bool
	open   int // requests in progress
	first  uint32
	answer func(i int, typ uint16, payload []byte)
}

// receive handles the messages of a datagram. It ignores answers to earlier requests.
func (e *exchange) receive(data []byte) {
	for len(data) >= unix.SizeofNlMsghdr {
		size := int(binary.NativeEndian.Uint32(data))
		if size < unix.SizeofNlMsghdr || size > len(data) {
			e.endAll(fmt.Errorf("the kernel's answer has a message of %d bytes in %d", size, len(data)))
			return
		}
		typ, flags := binary.NativeEndian.Uint16(data[4:]), binary.NativeEndian.Uint16(data[6:])
		if i := int(binary.NativeEndian.Uint32(data[8:]) - e.first); i < len(e.reqs) && !e.ended[i] {
			e.take(i, typ, flags, data[unix.SizeofNlMsghdr:size])
		}
		data = data[min((size+3)&^3, len(data)):]
	}
}

func (e *exchange) take(i int, typ, flags uint16, payload []byte) {
	if flags&unix.NLM_F_DUMP_INTR != 0 && e.errs[i] == nil {
		e.errs[i] = netlink.ErrDumpInterrupted
	}
	switch {
	case typ == unix.NLMSG_ERROR || typ == unix.NLMSG_DONE:
		var err error
		if len(payload) >= 4 {
			if errno := int32(binary.NativeEndian.Uint32(payload)); errno != 0 {
				err = syscall.Errno(-errno)
			}
		}
		e.end(i, err)
	default:
		e.answer(i, typ, payload)
		if flags&unix.NLM_F_MULTI == 0 && e.reqs[i].Flags&unix.NLM_F_ACK == 0 {
			e.end(i, nil)
		}
	}
}

// end records that a request is complete.
func (e *exchange) end(i int, err error) {
	if e.ended[i] {
		return
	}
	if err != nil {
		e.errs[i] = err
	}
	e.ended[i] = true
	e.open--
}

func (e *exchange) endAll(err error) {
	for i := range e.reqs {
		e.end(i, err)
	}
}
