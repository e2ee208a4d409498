// Package sockets lists unconnected sockets that receive from any peer, and ends TCP connections by their
// sockets, like ss -K: the kernel resets the other end, and the owner of the socket gets ECONNABORTED.
//
//	connections ──> sockets of a network namespace (sock_diag) ──exact matches──> SOCK_DESTROY, by cookie
package sockets

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Connection is a connection as seen by its socket.
type Connection struct{ Local, Remote netip.AddrPort }

// ErrUnsupported: the kernel cannot end connections.
var ErrUnsupported = errors.New("this Linux kernel lacks CONFIG_INET_DIAG_DESTROY")

// Messages of sock_diag: struct inet_diag_req_v2 is 8 bytes and an identity, struct inet_diag_msg
// begins with 4 bytes and an identity. An identity has the ports (2 bytes each) and addresses (16
// each) of both ends, the index of an interface (4) and a cookie (8).
const (
	requestHead = 8
	answerHead  = 4
	identity    = 48
	cookieAt    = requestHead + 40
	stateAt     = 1 // of an answer
)

// States of connections, except embryonic ones of a listener and TIME_WAIT.
const opening = 1 << unix.BPF_TCP_SYN_SENT
const connected = 1<<unix.BPF_TCP_ESTABLISHED | 1<<unix.BPF_TCP_FIN_WAIT1 | 1<<unix.BPF_TCP_FIN_WAIT2 |
	1<<unix.BPF_TCP_CLOSE_WAIT | 1<<unix.BPF_TCP_LAST_ACK | 1<<unix.BPF_TCP_CLOSING

// Supported returns ErrUnsupported if the kernel cannot end connections.
func Supported() error {
	return in(netns.None(), func(s *nl.NetlinkSocket) error {
		none := request(unix.AF_INET, unix.IPPROTO_TCP, 0)
		none[cookieAt] = 1 // without ports: no socket matches
		err := call(s, nl.SOCK_DESTROY, none, nil)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	})
}

// Destroy ends the connections that have a socket in a network namespace, and returns them.
// Connections being opened are ended only if their value is true. The cookie protects listeners and
// later connections with the same addresses and ports.
func Destroy(ns netns.NsHandle, connections map[Connection]bool) (ended []Connection, err error) {
	if len(connections) == 0 {
		return nil, nil
	}
	err = in(ns, func(s *nl.NetlinkSocket) error {
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} { // IPv6 sockets include mapped IPv4 connections
			var found [][]byte
			if err := call(s, nl.SOCK_DIAG_BY_FAMILY, request(family, unix.IPPROTO_TCP, connected|opening), func(answer []byte) {
				if len(answer) < answerHead+identity {
					return
				}
				if early, is := connections[connectionOf(answer)]; is && (early || answer[stateAt] != unix.BPF_TCP_SYN_SENT) {
					found = append(found, answer)
				}
			}); err != nil {
				return fmt.Errorf("listing sockets: %w", err)
			}
			for _, answer := range found {
				exact := request(family, unix.IPPROTO_TCP, 0)
				copy(exact[requestHead:], answer[answerHead:answerHead+identity])
				switch err := call(s, nl.SOCK_DESTROY, exact, nil); {
				case errors.Is(err, unix.ENOENT): // it has ended
				case err != nil:
					return fmt.Errorf("ending a connection: %w", err)
				default:
					ended = append(ended, connectionOf(answer))
				}
			}
		}
		return nil
	})
	return ended, err
}

// in calls do with a sock_diag socket in a network namespace (none: of the calling thread).
func in(ns netns.NsHandle, do func(s *nl.NetlinkSocket) error) error {
	s, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_INET_DIAG)
	if err != nil {
		return fmt.Errorf("opening sock_diag: %w", err)
	}
	defer s.Close()
	patience := unix.NsecToTimeval(int64(time.Minute))
	if err := errors.Join(s.SetSendTimeout(&patience), s.SetReceiveTimeout(&patience)); err != nil {
		return err
	}
	return do(s)
}

// call sends a request. With answers, it is a dump.
func call(s *nl.NetlinkSocket, kind int, payload []byte, answers func([]byte)) error {
	flags := unix.NLM_F_ACK
	if answers != nil {
		flags = unix.NLM_F_DUMP
	}
	req := nl.NewNetlinkRequest(kind, flags)
	req.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_INET_DIAG: {Socket: s}}
	req.AddRawData(payload)
	err := req.ExecuteIter(unix.NETLINK_INET_DIAG, 0, func(answer []byte) bool {
		if answers != nil {
			answers(append([]byte{}, answer...))
		}
		return true
	})
	switch {
	case errors.Is(err, unix.EOPNOTSUPP):
		return ErrUnsupported
	case errors.Is(err, netlink.ErrDumpInterrupted), errors.Is(err, unix.ENOENT) && answers != nil: // ENOENT: a kernel without IPv6
		return nil
	}
	return err
}

func request(family, protocol byte, states uint32) []byte {
	r := make([]byte, requestHead+identity)
	r[0], r[1] = family, protocol
	binary.NativeEndian.PutUint32(r[4:], states)
	return r
}

// connectionOf decodes the connection of an answer. Mapped IPv4 addresses are unmapped.
func connectionOf(answer []byte) Connection {
	id := answer[answerHead:]
	end := func(port, addr []byte) netip.AddrPort {
		a, _ := netip.AddrFromSlice(addr)
		return netip.AddrPortFrom(a.Unmap(), binary.BigEndian.Uint16(port))
	}
	size := 4
	if answer[0] == unix.AF_INET6 {
		size = 16
	}
	return Connection{Local: end(id[0:2], id[4:4+size]), Remote: end(id[2:4], id[20:20+size])}
}
