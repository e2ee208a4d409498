package rtnl

import (
	"encoding/binary"

	"github.com/contiv/contiv/internal/netlink/nlattr"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Attributes of linux/net_namespace.h.
const (
	netnsaNSID = 1 // NETNSA_NSID
	netnsaFD   = 3 // NETNSA_FD
)

const (
	noNSID = -1
	// anyNSID requests a free ID: NETNSA_NSID_NOT_ASSIGNED.
	anyNSID = ^uint32(0)
)

// GetNetNsIdByFd returns the ID of an open network namespace in this one, negative if none.
func (r *Conn) GetNetNsIdByFd(fd int) (int, error) {
	return ask(r, "GetNetNsIdByFd", func() (int, error) {
		nsid, errs := r.nsid(r.nsidRequest(unix.RTM_GETNSID, fd))
		return nsid, errs[0]
	})
}

// AssignNetNsIdByFd returns the ID of an open network namespace in this one, and assigns one if
// necessary.
func (r *Conn) AssignNetNsIdByFd(fd int) (int, error) {
	return ask(r, "AssignNetNsIdByFd", func() (int, error) {
		assign := r.nsidRequest(unix.RTM_NEWNSID, fd)
		assign.Flags |= unix.NLM_F_ACK
		assign.AddData(nl.NewRtAttr(netnsaNSID, binary.NativeEndian.AppendUint32(nil, anyNSID)))
		nsid, errs := r.nsid(assign, r.nsidRequest(unix.RTM_GETNSID, fd))
		if errs[0] != nil && errs[0] != unix.EEXIST {
			return noNSID, errs[0]
		}
		return nsid, errs[1]
	})
}

func (r *Conn) nsidRequest(typ, fd int) *nl.NetlinkRequest {
	req := r.Request(typ, 0)
	req.AddData(nl.NewRtGenMsg())
	req.AddData(nl.NewRtAttr(netnsaFD, nl.Uint32Attr(uint32(fd))))
	return req
}

// nsid sends requests and returns the ID in the answer.
func (r *Conn) nsid(reqs ...*nl.NetlinkRequest) (nsid int, errs []error) {
	const header = 4 // struct rtgenmsg, padded
	nsid = noNSID
	errs = r.socket.exchange(reqs, func(_ int, _ uint16, payload []byte) {
		for attr, value := range nlattr.All(payload[min(header, len(payload)):]) {
			if attr == netnsaNSID && len(value) >= 4 {
				nsid = int(int32(binary.NativeEndian.Uint32(value)))
			}
		}
	})
	return nsid, errs
}
