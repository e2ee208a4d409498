package conntrack

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Of linux/netfilter/nfnetlink_conntrack.h: which connections a dump lists.
const (
	ctaFilter           = 25
	ctaFilterOrigFlags  = 1
	ctaFilterReplyFlags = 2
	ctaFilterIPSource   = 1 << 0
)

// fewHosts are listed one by one: the kernel then passes over the connections of others, which takes about a tenth of the time.
const fewHosts = 4

// hosts have the kernel forget their connections.
type hosts struct {
	addrs   []netip.Addr
	sockets map[int]*nl.SocketHandle
}

// ForgetHosts has the kernel forget all connections that the addresses opened or answer. A host that is given one of them
// later has none of the former's: nobody can answer what it never asked.
func ForgetHosts(ns netns.NsHandle, addrs ...netip.Addr) error {
	if len(addrs) == 0 {
		return nil
	}
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer socket.Close()
	h := hosts{addrs, map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}}
	var errs []error
	four := slices.DeleteFunc(slices.Clone(addrs), netip.Addr.Is6)
	if len(four) > fewHosts {
		errs = append(errs, h.forget(unix.AF_INET))
		four = nil
	}
	for _, addr := range four {
		errs = append(errs, h.forget(unix.AF_INET, filter(addr, nl.CTA_TUPLE_ORIG, ctaFilterOrigFlags)...),
			h.forget(unix.AF_INET, filter(addr, nl.CTA_TUPLE_REPLY, ctaFilterReplyFlags)...))
	}
	if slices.ContainsFunc(addrs, netip.Addr.Is6) {
		errs = append(errs, h.forget(unix.AF_INET6))
	}
	return errors.Join(errs...)
}

// filter asks for connections with the source in a tuple. Kernels before 5.8 list others, too. With addresses of IPv6, all
// kernels (6.18) list exactly the others.
func filter(source netip.Addr, tuple, flags int) []*nl.RtAttr {
	wanted := nl.NewRtAttr(tuple|unix.NLA_F_NESTED, nil)
	wanted.AddRtAttr(nl.CTA_TUPLE_IP|unix.NLA_F_NESTED, nil).AddRtAttr(nl.CTA_IP_V4_SRC, source.AsSlice())
	by := nl.NewRtAttr(ctaFilter|unix.NLA_F_NESTED, nil)
	by.AddRtAttr(flags, binary.NativeEndian.AppendUint32(nil, ctaFilterIPSource))
	return []*nl.RtAttr{wanted, by}
}

// forget removes those of the connections listed that are of the hosts.
func (h hosts) forget(family uint8, filter ...*nl.RtAttr) error {
	request := func(what, flags int) *nl.NetlinkRequest {
		r := nl.NewNetlinkRequest(int(netlink.ConntrackTable)<<8|what, flags)
		r.Sockets = h.sockets
		r.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
		return r
	}
	list := request(nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	for _, attribute := range filter {
		list.AddData(attribute)
	}
	var found [][]byte
	if err := list.ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
		if len(m) >= nl.SizeofNfgenmsg && h.are(m[nl.SizeofNfgenmsg:]) {
			found = append(found, bytes.Clone(m[nl.SizeofNfgenmsg:]))
		}
		return true
	}); err != nil {
		return fmt.Errorf("listing connections: %w", err)
	}
	for _, connection := range found {
		remove := request(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK)
		remove.AddRawData(connection)
		if _, err := remove.Execute(unix.NETLINK_NETFILTER, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forgetting a connection: %w", err)
		}
	}
	return nil
}

// are reports whether one of the hosts opened a connection, as netlink describes it, or answers.
func (h hosts) are(connection []byte) bool {
	for attribute, value := range nlattr.All(connection) {
		if (attribute == nl.CTA_TUPLE_ORIG || attribute == nl.CTA_TUPLE_REPLY) && slices.Contains(h.addrs, sourceOf(value)) {
			return true
		}
	}
	return false
}

func sourceOf(tuple []byte) (addr netip.Addr) {
	for attribute, value := range nlattr.All(tuple) {
		if attribute != nl.CTA_TUPLE_IP {
			continue
		}
		for attribute, value := range nlattr.All(value) {
			if attribute == nl.CTA_IP_V4_SRC || attribute == nl.CTA_IP_V6_SRC {
				addr, _ = netip.AddrFromSlice(value)
			}
		}
	}
	return addr
}
