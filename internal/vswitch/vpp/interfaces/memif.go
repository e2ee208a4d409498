package interfaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/convert"
	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"
	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
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

const (
	maxMemifSecret = 23
	// maxMemifSocket is the maximum length of a socket path, with VPP's runtime directory.
	maxMemifSocket = 106
	// defaultMemifSocket is in VPP's runtime directory.
	defaultMemifSocket = "memif.sock"
)

func supportedMemif(link *vpp_interfaces.MemifLink) error {
	switch ring, mode := link.GetRingSize(), link.GetMode(); {
	case mode != vpp_interfaces.MemifLink_ETHERNET && mode != vpp_interfaces.MemifLink_IP:
		return vswitch.Unsupported("memif.mode %v: use ETHERNET or IP", mode) // VPP 25.10 ends
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
	switch {
	case err == nil:
		return reply.SwIfIndex, nil
	case vppapi.Refused(err, api.SYSCALL_ERROR_4):
		err = fmt.Errorf("making %s: VPP cannot listen there: the directory must exist, and nothing else may have the path: %w", what, err)
		return 0, errors.Join(err, v.forgetMemifSocket(ctx, socket))
	case !vppapi.Refused(err, api.SUBIF_ALREADY_EXISTS):
		return 0, errors.Join(fmt.Errorf("making %s: %w", what, err), v.forgetMemifSocket(ctx, socket))
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

// memifSocket registers a socket with VPP and returns its number. It never reuses the number of an
// unused socket: when VPP 25.10 fails to listen on a socket, its reference count ends up one too
// low. VPP would then create the next memif on that number without listening, accept a second one
// of the same identity, and abort because both have the same name. VPP never releases the number 0,
// so it is not used either.
func (v *Interfaces) memifSocket(ctx context.Context, file string) (uint32, error) {
	known, err := session.Dump[memif.MemifSocketFilenameDetails](ctx, v.vpp, memifModule, &memif.MemifSocketFilenameDump{})
	if err != nil {
		return 0, err
	}
	memifs, err := session.Dump[memif.MemifDetails](ctx, v.vpp, memifModule, &memif.MemifDump{})
	if err != nil {
		return 0, err
	}
	path := memifPath(known, file)
	if len(path) > maxMemifSocket {
		return 0, vswitch.Unsupported("memif.socket_filename: %s has %d bytes: use a path with at most %d", path, len(path), maxMemifSocket)
	}
	for _, s := range known {
		if s.SocketFilename != path {
			continue
		}
		if slices.ContainsFunc(memifs, func(d *memif.MemifDetails) bool { return d.SocketID == s.SocketID }) {
			return s.SocketID, nil
		}
		if err := v.forgetMemifSocket(ctx, s.SocketID); err != nil {
			return 0, err
		}
	}
	var reply memif.MemifSocketFilenameAddDelV2Reply
	err = v.vpp.Call(ctx, memifModule, &memif.MemifSocketFilenameAddDelV2{IsAdd: true, SocketID: ^uint32(0), SocketFilename: cmp.Or(file, defaultMemifSocket)}, &reply)
	if err != nil {
		return 0, fmt.Errorf("making memif socket %q known to VPP: %w", path, err)
	}
	return reply.SocketID, nil
}

// memifPath returns the socket path of a value. Relative paths are in VPP's runtime directory, like
// socket 0.
func memifPath(sockets []*memif.MemifSocketFilenameDetails, file string) string {
	file = cmp.Or(file, defaultMemifSocket)
	for _, prefix := range []string{"/", "abstract:", "unix:", "tcp:"} {
		if strings.HasPrefix(file, prefix) {
			return file
		}
	}
	for _, s := range sockets {
		if s.SocketID == 0 {
			return filepath.Dir(s.SocketFilename) + "/" + file
		}
	}
	return file
}

// forgetMemifSocket unregisters a socket, unless a memif uses it.
func (v *Interfaces) forgetMemifSocket(ctx context.Context, socket uint32) error {
	if socket == 0 {
		return nil
	}
	err := v.vpp.Call(ctx, memifModule, &memif.MemifSocketFilenameAddDelV2{SocketID: socket}, &memif.MemifSocketFilenameAddDelV2Reply{})
	if err != nil && !vppapi.Refused(err, api.UNEXPECTED_INTF_STATE, api.INVALID_ARGUMENT) {
		return fmt.Errorf("making VPP forget a memif socket: %w", err)
	}
	return nil
}

// removeMemif also unregisters an unused socket.
func (v *Interfaces) removeMemif(ctx context.Context, i ownership.Index) error {
	all, err := session.Dump[memif.MemifDetails](ctx, v.vpp, memifModule, &memif.MemifDump{})
	if err != nil {
		return err
	}
	if err := v.vpp.Call(ctx, memifModule, &memif.MemifDelete{SwIfIndex: i}, &memif.MemifDeleteReply{}); err != nil {
		return err
	}
	for _, d := range all {
		if d.SwIfIndex == i {
			return v.forgetMemifSocket(ctx, d.SocketID)
		}
	}
	return nil
}

// describeMemif: VPP reports neither the number of queues nor the secret, and only negotiated
// sizes.
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
	if file != memifPath(slices.Collect(maps.Values(inv.sockets)), link.GetSocketFilename()) {
		link.SocketFilename = file
	}
	return link
}
