package nat

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// ctaStatusMask says which bits of the status a dump of connections is filtered by (Linux 5.8).
const ctaStatusMask = 26

// Sessions returns how many connections with a translated destination the kernel tracks, of both IP
// versions. Newer kernels list no others; older ones list all connections.
func (v *Driver) Sessions(context.Context) (n uint64, err error) {
	socket, err := nl.GetNetlinkSocketAt(v.NS.Handle, netns.None(), unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, fmt.Errorf("opening netlink for connections: %w", err)
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
		return 0, fmt.Errorf("listing connections: %w", err)
	}
	for _, m := range messages {
		if isTranslated(m) {
			n++
		}
	}
	return n, nil
}

// isTranslated reports whether a connection, as netlink describes it, has another destination.
func isTranslated(message []byte) bool {
	if len(message) < nl.SizeofNfgenmsg {
		return false
	}
	attributes, err := nl.ParseRouteAttr(message[nl.SizeofNfgenmsg:])
	if err != nil {
		return false
	}
	for _, a := range attributes {
		if a.Attr.Type&nl.NLA_TYPE_MASK == nl.CTA_STATUS && len(a.Value) == 4 {
			return binary.BigEndian.Uint32(a.Value)&ctDestinationNAT != 0
		}
	}
	return false
}
