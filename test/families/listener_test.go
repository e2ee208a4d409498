package families

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"golang.org/x/sys/unix"
)

// listener receives all changes in a namespace.
type listener struct {
	t     testing.TB
	where netns
	// routing receives events of devices, addresses, routes, rules and neighbours; rules of
	// nftables.
	routing, rules *os.File
}

// nfnlgrpNFTables is NFNLGRP_NFTABLES of linux/netfilter/nfnetlink.h.
const nfnlgrpNFTables = 7

func listenTo(t testing.TB, where netns) *listener {
	t.Helper()
	l := &listener{t: t, where: where}
	l.routing = l.open(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH, unix.RTNLGRP_TC,
		unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV4_RULE,
		unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_IPV6_RULE, unix.RTNLGRP_NEXTHOP)
	l.rules = l.open(unix.NETLINK_NETFILTER, nfnlgrpNFTables)
	t.Cleanup(func() { l.routing.Close(); l.rules.Close() })
	return l
}

func (l *listener) open(protocol int, groups ...int) *os.File {
	l.t.Helper()
	ns, err := namespace.Open(l.where.path())
	if err != nil {
		l.t.Fatal(err)
	}
	defer ns.Close()
	fd := -1
	err = ns.Run(func() (err error) {
		if fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 8<<20); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for _, group := range groups {
		if err := unix.SetsockoptInt(fd, unix.SOL_NETLINK, unix.NETLINK_ADD_MEMBERSHIP, group); err != nil {
			l.t.Fatal(err)
		}
	}
	return os.NewFile(uintptr(fd), "changes in "+l.where.name)
}

// quiet waits for a period without changes: duplicate address detection and carrier events come
// late.
func (l *listener) quiet() {
	l.t.Helper()
	for len(l.read(2*time.Second)) > 0 {
	}
}

// changes returns the changes since the last call.
func (l *listener) changes() []string { return l.read(100 * time.Millisecond) }

// read returns changes until none come for a time.
func (l *listener) read(pause time.Duration) (changes []string) {
	l.t.Helper()
	for _, socket := range []*os.File{l.routing, l.rules} {
		buffer := make([]byte, 1<<16)
		for {
			if err := socket.SetReadDeadline(time.Now().Add(pause)); err != nil {
				l.t.Fatal(err)
			}
			n, err := socket.Read(buffer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				l.t.Fatal(err)
			}
			messages, err := syscall.ParseNetlinkMessage(buffer[:n])
			if err != nil {
				l.t.Fatal(err)
			}
			for _, m := range messages {
				if !spontaneous(m) {
					changes = append(changes, fmt.Sprintf("%s: message of type %d: %s", l.where.name, m.Header.Type, texts(m.Data)))
				}
			}
		}
	}
	return changes
}

// spontaneous reports whether the kernel makes such changes by itself: neighbours are learned, aged
// and removed; bridge ports start to learn and forward.
func spontaneous(m syscall.NetlinkMessage) bool {
	if m.Header.Type == unix.RTM_NEWLINK && len(m.Data) > 0 && m.Data[0] == unix.AF_BRIDGE {
		return true
	}
	const stateOffset = 8 // struct ndmsg
	isNeighbour := m.Header.Type == unix.RTM_NEWNEIGH || m.Header.Type == unix.RTM_DELNEIGH
	return isNeighbour && len(m.Data) > stateOffset && m.Data[stateOffset]&(unix.NUD_PERMANENT|unix.NUD_NOARP) == 0
}

// texts returns the readable parts of a message.
func texts(data []byte) string {
	words := strings.FieldsFunc(string(data), func(r rune) bool { return r < '!' || r > '~' })
	var long []string
	for _, w := range words {
		if len(w) > 2 {
			long = append(long, w)
		}
	}
	return strings.Join(long, " ") + " " + hex.EncodeToString(data[:min(len(data), 64)])
}
