package conntrack

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Attributes of connections that the library does not have.
const (
	ctaZone     = 18
	ctaMarkMask = 21
)

// ClearMarks clears the bits of the mask in the marks of the connections whose mark is stale, in a network namespace. It lists
// all connections.
func ClearMarks(ns netns.NsHandle, mask uint32, stale func(mark uint32) bool) error {
	socket, err := nl.GetNetlinkSocketAt(ns, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer socket.Close()
	request := func(message, flags int, family uint8) *nl.NetlinkRequest {
		r := nl.NewNetlinkRequest(int(netlink.ConntrackTable)<<8|message, flags)
		r.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}
		r.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
		return r
	}
	var updates []*nl.NetlinkRequest
	err = request(nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, unix.AF_UNSPEC).ExecuteIter(unix.NETLINK_NETFILTER, 0, func(m []byte) bool {
		if tuple, zone, mark, ok := markOf(m); ok && stale(mark) {
			update := request(nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_ACK, m[0])
			update.AddData(nl.NewRtAttr(nl.CTA_TUPLE_ORIG|unix.NLA_F_NESTED, slices.Clone(tuple)))
			if zone != nil {
				update.AddData(nl.NewRtAttr(ctaZone, slices.Clone(zone)))
			}
			update.AddData(nl.NewRtAttr(nl.CTA_MARK, make([]byte, 4)))
			update.AddData(nl.NewRtAttr(ctaMarkMask, binary.BigEndian.AppendUint32(nil, mask)))
			updates = append(updates, update)
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("listing connections: %w", err)
	}
	for _, update := range updates {
		if _, err := update.Execute(unix.NETLINK_NETFILTER, 0); err != nil && !errors.Is(err, unix.ENOENT) { // it has ended
			return fmt.Errorf("clearing the mark of a connection: %w", err)
		}
	}
	return nil
}

// markOf reads the mark of a connection, and the attributes that identify it; zone may be nil.
func markOf(message []byte) (tuple, zone []byte, mark uint32, ok bool) {
	if len(message) < nl.SizeofNfgenmsg {
		return nil, nil, 0, false
	}
	for attribute, value := range nlattr.All(message[nl.SizeofNfgenmsg:]) {
		switch {
		case attribute == nl.CTA_TUPLE_ORIG:
			tuple = value
		case attribute == ctaZone:
			zone = value
		case attribute == nl.CTA_MARK && len(value) == 4:
			mark = binary.BigEndian.Uint32(value)
		}
	}
	return tuple, zone, mark, tuple != nil
}
