package vpptest

import (
	"os"
	"path/filepath"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	interfaces "go.fd.io/govpp/binapi/interface"
	"go.fd.io/govpp/binapi/memif"
)

// runtimeDir is VPP's runtime directory.
const runtimeDir = "/run/vpp"

type memifIf struct{ memif.MemifDetails }

// memifSocket is where memifs meet.
type memifSocket struct {
	file string
	// users is VPP's count of memifs: one less after each failed attempt to listen.
	users int
}

// canListen reports whether a master can listen at the socket.
func (s *memifSocket) canListen() bool {
	const maxPath = 106
	if len(s.file) > maxPath {
		return false
	}
	if !filepath.IsAbs(s.file) || strings.HasPrefix(s.file, runtimeDir+"/") {
		return true
	}
	dir, err := os.Stat(filepath.Dir(s.file))
	if err != nil || !dir.IsDir() {
		return false
	}
	there, err := os.Stat(s.file)
	return err != nil || there.Mode().Type() == os.ModeSocket
}

func handleMemif() {
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		if m, ok := c.ifs.list[i].kind.(memifIf); ok {
			c.ifs.sockets[m.SocketID].users--
		}
	})
	on(func(c *call, req *memif.MemifSocketFilenameAddDelV2, reply *memif.MemifSocketFilenameAddDelV2Reply) api.VPPApiError {
		reply.SocketID = req.SocketID
		if req.SocketID == 0 {
			return api.INVALID_ARGUMENT
		}
		if !req.IsAdd {
			switch s := c.ifs.sockets[req.SocketID]; {
			case s == nil:
				return api.INVALID_ARGUMENT
			case s.users > 0:
				return api.UNEXPECTED_INTF_STATE
			}
			delete(c.ifs.sockets, req.SocketID)
			return 0
		}
		file := strings.TrimRight(req.SocketFilename, "\x00")
		if !filepath.IsAbs(file) && !strings.HasPrefix(file, "abstract:") {
			file = runtimeDir + "/" + file
		}
		if req.SocketID == ^uint32(0) {
			for reply.SocketID = 1; c.ifs.sockets[reply.SocketID] != nil; reply.SocketID++ {
			}
		}
		if was := c.ifs.sockets[reply.SocketID]; was != nil {
			if was.file != file {
				return api.ENTRY_ALREADY_EXISTS
			}
			return 0
		}
		c.ifs.sockets[reply.SocketID] = &memifSocket{file: file}
		return 0
	})
	onDump(func(c *call, _ *memif.MemifSocketFilenameDump, send func(*memif.MemifSocketFilenameDetails)) {
		for id, s := range c.ifs.sockets {
			const most = 107 // bytes that details have room for
			send(&memif.MemifSocketFilenameDetails{SocketID: id, SocketFilename: s.file[:min(len(s.file), most)]})
		}
	})
	on(createMemif)
	onInterface(func(r *memif.MemifDelete) index { return r.SwIfIndex }, deleteKind[memifIf, *memif.MemifDelete, *memif.MemifDeleteReply])
	onDump(func(c *call, _ *memif.MemifDump, send func(*memif.MemifDetails)) {
		dumpKind(c, noIndex, func(_ *swInterface, m memifIf) {
			send(&m.MemifDetails)
		})
	})
}

func createMemif(c *call, req *memif.MemifCreateV2, reply *memif.MemifCreateV2Reply) api.VPPApiError {
	reply.SwIfIndex = noIndex
	socket := c.ifs.sockets[req.SocketID]
	same := func(d memif.MemifDetails) bool { return d.ID == req.ID }
	switch {
	case req.RingSize&(req.RingSize-1) != 0, socket == nil:
		return api.INVALID_ARGUMENT
	case socket.users > 0 && c.memifsOf(req.SocketID, func(d memif.MemifDetails) bool { return d.Role != req.Role || same(d) }):
		return api.SUBIF_ALREADY_EXISTS
	case req.Mode > memif.MEMIF_MODE_API_IP:
		return c.ends("it takes back a memif of an unknown mode, which has no interface yet")
	case c.memifsOf(req.SocketID, same):
		return c.ends("two memifs have one name")
	}
	if req.Role == memif.MEMIF_ROLE_API_MASTER && socket.users == 0 && !socket.canListen() {
		socket.users--
		return api.SYSCALL_ERROR_4
	}
	socket.users++
	mac := req.HwAddr
	if (mac == ethernet_types.MacAddress{}) && req.Mode == memif.MEMIF_MODE_API_ETHERNET {
		mac = c.ifs.randomMAC()
	}
	i := c.addInterface(&swInterface{prefix: name("memif", req.SocketID) + "/", instance: req.ID, SwInterfaceDetails: interfaces.SwInterfaceDetails{
		InterfaceName: name(name("memif", req.SocketID)+"/", req.ID), InterfaceDevType: "memif", L2Address: mac,
	}})
	// Sizes of a connection, without connection.
	i.kind = memifIf{memif.MemifDetails{
		SwIfIndex: i.SwIfIndex, HwAddr: mac, ID: req.ID, Role: req.Role, Mode: req.Mode, SocketID: req.SocketID, RingSize: 1, IfName: i.InterfaceName,
	}}
	reply.SwIfIndex = i.SwIfIndex
	return 0
}

// memifsOf reports whether like holds for any memif of the socket.
func (c *call) memifsOf(socket uint32, like func(memif.MemifDetails) bool) (found bool) {
	c.ifs.all(func(i *swInterface) {
		m, ok := i.kind.(memifIf)
		found = found || ok && m.SocketID == socket && like(m.MemifDetails)
	})
	return found
}
