package interfaces

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/contiv/contiv/vswitch/vpp/convert"
	"github.com/contiv/contiv/vswitch/vpp/ownership"
	"github.com/contiv/contiv/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/vswitch"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memif"
	"google.golang.org/protobuf/proto"
)

var memifModule = session.NewModule("memif_plugin.so", "memifs",
	&memif.MemifCreateV2{}, &memif.MemifCreateV2Reply{}, &memif.MemifDelete{}, &memif.MemifDeleteReply{},
	&memif.MemifDump{}, &memif.MemifDetails{},
	&memif.MemifSocketFilenameAddDelV2{}, &memif.MemifSocketFilenameAddDelV2Reply{},
	&memif.MemifSocketFilenameDump{}, &memif.MemifSocketFilenameDetails{},
)

const maxMemifSecret = 23

func supportedMemif(link *vpp_interfaces.MemifLink) error {
	switch ring := link.GetRingSize(); {
	case ring&(ring-1) != 0:
		return vswitch.Unsupported("memif.ring_size %d: use a power of two", ring)
	case link.GetRxQueues() > 255 || link.GetTxQueues() > 255:
		return vswitch.Unsupported("memif.rx_queues, memif.tx_queues: use at most 255")
	case link.GetBufferSize() > 65535:
		return vswitch.Unsupported("memif.buffer_size %d: use at most 65535", link.GetBufferSize())
	case len(link.GetSecret()) > maxMemifSecret:
		return vswitch.Unsupported("memif.secret: use at most %d characters", maxMemifSecret)
	}
	return nil
}

func (v *Interfaces) makeMemif(ctx context.Context, iface *vpp_interfaces.Interface) (ownership.Index, error) {
	link := iface.GetMemif()
	socket, err := v.memifSocket(ctx, link.GetSocketFilename())
	if err != nil {
		return 0, err
	}
	req := &memif.MemifCreateV2{
		Role: memif.MEMIF_ROLE_API_SLAVE, Mode: memif.MemifMode(link.GetMode()), RxQueues: uint8(link.GetRxQueues()), TxQueues: uint8(link.GetTxQueues()),
		ID: link.GetId(), SocketID: socket, RingSize: link.GetRingSize(), BufferSize: uint16(link.GetBufferSize()), Secret: link.GetSecret(),
	}
	if link.GetMaster() {
		req.Role = memif.MEMIF_ROLE_API_MASTER
	}
	if mac, err := convert.ParseMAC(iface.GetPhysAddress()); err == nil {
		req.HwAddr = mac
	}
	var reply memif.MemifCreateV2Reply
	what := fmt.Sprintf("memif %d at socket %q", link.GetId(), link.GetSocketFilename())
	err = v.vpp.Call(ctx, memifModule, req, &reply)
	if !vppapi.Refused(err, api.SUBIF_ALREADY_EXISTS) {
		if err != nil {
			err = fmt.Errorf("making %s: %w", what, err)
		}
		return reply.SwIfIndex, err
	}
	all, err := session.Dump[memif.MemifDetails](ctx, v.vpp, memifModule, &memif.MemifDump{})
	if err != nil {
		return 0, err
	}
	for _, d := range all {
		if d.SocketID == socket && d.ID == req.ID {
			return v.takeUntagged(ctx, d.SwIfIndex, what)
		}
	}
	return 0, fmt.Errorf("making %s: the memifs of a socket are all masters or all slaves", what)
}

// memifSocket returns the number of a socket, which it makes known to VPP if it is not;
// 0 is VPP's default one.
func (v *Interfaces) memifSocket(ctx context.Context, file string) (uint32, error) {
	if file == "" {
		return 0, nil
	}
	known, err := session.Dump[memif.MemifSocketFilenameDetails](ctx, v.vpp, memifModule, &memif.MemifSocketFilenameDump{})
	if err != nil {
		return 0, err
	}
	for _, s := range known {
		if isSocket(s.SocketFilename, file) {
			return s.SocketID, nil
		}
	}
	var reply memif.MemifSocketFilenameAddDelV2Reply
	err = v.vpp.Call(ctx, memifModule, &memif.MemifSocketFilenameAddDelV2{IsAdd: true, SocketID: ^uint32(0), SocketFilename: file}, &reply)
	if err != nil {
		return 0, fmt.Errorf("making memif socket %q known to VPP: %w", file, err)
	}
	return reply.SocketID, nil
}

// isSocket reports whether a socket of VPP's is the one of a value. Relative paths are those in
// VPP's runtime directory.
func isSocket(path, file string) bool {
	return path == file || !filepath.IsAbs(file) && strings.HasSuffix(path, "/"+file)
}

// removeMemif also makes VPP forget the socket, if no other memif uses it.
func (v *Interfaces) removeMemif(ctx context.Context, i ownership.Index) error {
	all, err := session.Dump[memif.MemifDetails](ctx, v.vpp, memifModule, &memif.MemifDump{})
	if err != nil {
		return err
	}
	if err := v.vpp.Call(ctx, memifModule, &memif.MemifDelete{SwIfIndex: i}, &memif.MemifDeleteReply{}); err != nil {
		return err
	}
	for _, d := range all {
		if d.SwIfIndex != i || d.SocketID == 0 {
			continue
		}
		err := v.vpp.Call(ctx, memifModule, &memif.MemifSocketFilenameAddDelV2{SocketID: d.SocketID}, &memif.MemifSocketFilenameAddDelV2Reply{})
		if err != nil && !vppapi.Refused(err, api.UNEXPECTED_INTF_STATE, api.INVALID_ARGUMENT) {
			return fmt.Errorf("making VPP forget the socket: %w", err)
		}
	}
	return nil
}

// describeMemif: VPP does not tell numbers of queues and the secret, and of sizes those that
// both ends have agreed on.
func (inv *inventory) describeMemif(d *memif.MemifDetails, expected *vpp_interfaces.MemifLink) *vpp_interfaces.MemifLink {
	link := proto.CloneOf(expected)
	if link == nil {
		link = &vpp_interfaces.MemifLink{}
	}
	link.Mode, link.Master, link.Id = vpp_interfaces.MemifLink_MemifMode(d.Mode), d.Role == memif.MEMIF_ROLE_API_MASTER, d.ID
	file := ""
	if s := inv.sockets[ownership.Index(d.SocketID)]; s != nil {
		file = s.SocketFilename
	}
	if d.SocketID == 0 && link.GetSocketFilename() != "" || d.SocketID != 0 && !isSocket(file, link.GetSocketFilename()) {
		link.SocketFilename = file
	}
	return link
}
