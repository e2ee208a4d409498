package nat

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	ctaStatusMask = 26

	ctDestinationNAT = 1 << 5
)

// Sessions returns the number of tracked connections with a translated destination, of both IP
// versions. Newer kernels filter them; older ones list all connections.
func (v *Driver) Sessions(context.Context) (tcp, other uint64, err error) {
	socket, err := nl.GetNetlinkSocketAt(v.NS.Handle, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, 0, fmt.Errorf("opening netlink for connections: %w", err)
	}
	defer socket.Close()
	request := nl.NewNetlinkRequest(int(netlink.ConntrackTable)<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP)
	request.Sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}
	request.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_UNSPEC, Version: nl.NFNETLINK_V0})
	for _, attribute := range []int{nl.CTA_STATUS, ctaStatusMask} {
		request.AddData(nl.NewRtAttr(attribute, binary.BigEndian.AppendUint32(nil, ctDestinationNAT)))
	}
	messages, err := request.Execute(unix.NETLINK_NETFILTER, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("listing connections: %w", err)
	}
	for _, m := range messages {
		switch protocol, translated := translatedProtocol(m); {
		case !translated:
		case protocol == unix.IPPROTO_TCP:
			tcp++
		default:
			other++
		}
	}
	return tcp, other, nil
}

func translatedProtocol(message []byte) (protocol byte, translated bool) {
	if len(message) < nl.SizeofNfgenmsg {
		return 0, false
	}
	for attribute, value := range nlattr.All(message[nl.SizeofNfgenmsg:]) {
		switch {
		case attribute == nl.CTA_STATUS && len(value) == 4:
			translated = binary.BigEndian.Uint32(value)&ctDestinationNAT != 0
		case attribute == nl.CTA_TUPLE_ORIG:
			protocol = protocolOfTuple(value)
		}
	}
	return protocol, translated
}

func protocolOfTuple(tuple []byte) (protocol byte) {
	for attribute, value := range nlattr.All(tuple) {
		if attribute != nl.CTA_TUPLE_PROTO {
			continue
		}
		for attribute, value := range nlattr.All(value) {
			if attribute == nl.CTA_PROTO_NUM && len(value) > 0 {
				protocol = value[0]
			}
		}
	}
	return protocol
}
