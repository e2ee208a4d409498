package vpptest

import (
	"bufio"
	"encoding/binary"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ethernet_types"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
)

const sockclntCreateID = 15

// Server is one VPP process. Its methods are safe for concurrent use.
type Server struct {
	t      testing.TB
	socket string

	mu       sync.Mutex // guards the fields below; held while a request is handled
	state    *state
	lacking  map[string]bool            // packages of missing messages
	crcs     map[string]string          // message name → announced CRC
	refused  map[string]api.VPPApiError // message name → how it is refused
	devices  map[string]bool            // of VPP's network namespace
	buffers  int
	hosts    map[neighbourID]ethernet_types.MacAddress
	silent   bool
	deaf     bool                               // clients get no events
	choose   func(n int, req api.Message) Fault // nil: nothing goes wrong
	requests int                                // since choose was set
	listener net.Listener
	clients  map[*client]struct{}
	serving  sync.WaitGroup
}

// New starts a server that ends with the test and removes its socket.
func New(t testing.TB) *Server {
	t.Helper()
	registerHandlers()
	// t.TempDir() is too long for a socket path.
	dir, err := os.MkdirTemp("", "vpptest")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{
		t: t, socket: filepath.Join(dir, "api.sock"), state: newState(),
		lacking: map[string]bool{}, crcs: map[string]string{}, refused: map[string]api.VPPApiError{}, devices: map[string]bool{}, buffers: DefaultBuffers, hosts: map[neighbourID]ethernet_types.MacAddress{}, clients: map[*client]struct{}{},
	}
	s.Start()
	t.Cleanup(func() {
		s.Stop()
		os.RemoveAll(dir)
	})
	return s
}

// Socket is the path of the API socket.
func (s *Server) Socket() string { return s.socket }

// Start starts VPP again after Stop, without configuration.
func (s *Server) Start() {
	s.t.Helper()
	l, err := net.Listen("unix", s.socket)
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	pid := s.state.pid
	s.state = newState()
	s.state.pid = pid + 1
	s.listener = l
	s.serving.Go(func() { s.accept(l) })
}

// Stop ends VPP: connections end, and the state is lost.
func (s *Server) Stop() {
	s.mu.Lock()
	if s.listener != nil {
		s.listener.Close() // and removes the socket
		s.listener = nil
	}
	s.mu.Unlock()
	s.Disconnect()
	s.serving.Wait()
}

// Restart is Stop and Start.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Start()
}

// Disconnect ends all connections and keeps the state.
func (s *Server) Disconnect() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		c.nc.Close()
	}
}

// Refuse makes VPP refuse requests of the name with the code; 0: no longer.
func (s *Server) Refuse(request string, code api.VPPApiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[request] = code
}

// Silence stops or resumes VPP's answers.
func (s *Server) Silence(silent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.silent = silent
}

// Without hides API modules, such as "acl" or "nat44_ed", from clients that connect later, like
// missing plugins.
func (s *Server) Without(modules ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range modules {
		s.lacking[m] = true
	}
}

// OtherCRC changes the definition of a message for clients that connect later.
func (s *Server) OtherCRC(message, crc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crcs[message] = crc
}

// Do changes or reads the state like another client, by requests in the handlers' form. It returns
// the answers.
func (s *Server) Do(req api.Message) (answers []api.Message) {
	s.t.Helper()
	h := handlers[req.GetMessageName()]
	if h == nil {
		s.t.Fatalf("vpptest does not know %s", req.GetMessageName())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h(&call{server: s, state: s.state, send: func(m api.Message) { answers = append(answers, m) }}, req)
	return answers
}

func (s *Server) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		c := &client{server: s, nc: nc, w: bufio.NewWriter(nc), ids: map[string]uint16{}, messages: map[uint16]api.Message{}}
		s.mu.Lock()
		if s.listener != l {
			s.mu.Unlock()
			nc.Close()
			return
		}
		s.clients[c] = struct{}{}
		s.mu.Unlock()
		s.serving.Go(func() {
			c.serve()
			nc.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.clients, c)
		})
	}
}

// client is a connection.
type client struct {
	server   *Server
	nc       net.Conn
	w        *bufio.Writer
	ids      map[string]uint16
	messages map[uint16]api.Message
	wants    map[string]bool // names of events
}

func (c *client) serve() {
	r := bufio.NewReader(c.nc)
	if data, err := vppapi.ReadFrame(r); err != nil || binary.BigEndian.Uint16(data) != sockclntCreateID || !c.open() {
		return
	}
	for {
		data, err := vppapi.ReadFrame(r)
		if err != nil {
			return
		}
		if !c.handle(data) {
			return
		}
		if r.Buffered() == 0 {
			c.server.mu.Lock()
			err = c.w.Flush()
			c.server.mu.Unlock()
			if err != nil {
				return
			}
		}
	}
}

// open sends the message table.
func (c *client) open() bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	reply := &memclnt.SockclntCreateReply{Index: 1}
	next := uint16(100)
	for _, name := range slices.Sorted(maps.Keys(messages)) {
		m := messages[name]
		if s.lacking[moduleOf(m)] {
			continue
		}
		crc := m.GetCrcString()
		if other := s.crcs[name]; other != "" {
			crc = other
		}
		c.ids[name], c.messages[next] = next, m
		reply.MessageTable = append(reply.MessageTable, memclnt.MessageTableEntry{Index: next, Name: name + "_" + crc})
		next++
	}
	reply.Count = uint16(len(reply.MessageTable))
	data, err := codec.EncodeMsg(reply, sockclntCreateID+1)
	if err != nil {
		s.t.Errorf("vpptest: encoding the message table: %v", err)
		return false
	}
	return vppapi.WriteFrame(c.w, data) == nil && c.w.Flush() == nil
}

// handle handles a request; false ends the connection.
func (c *client) handle(data []byte) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	known := c.messages[binary.BigEndian.Uint16(data)]
	if known == nil || len(data) < 10 {
		s.t.Errorf("vpptest: the client sent the unannounced message %d", binary.BigEndian.Uint16(data))
		return false
	}
	req := newMessage(known)
	if err := codec.DecodeMsg(data, req); err != nil {
		s.t.Errorf("vpptest: decoding %s: %v", req.GetMessageName(), err)
		return false
	}
	if s.silent {
		return true
	}
	context := binary.BigEndian.Uint32(data[6:])
	call := &call{server: s, state: s.state, client: c, send: func(m api.Message) { c.send(context, m) }}
	h := handlers[req.GetMessageName()]
	fault := s.fault(req)
	switch fault {
	case CutBefore:
		_ = c.w.Flush() // earlier answers are sent
		return false
	case CutAfter:
		_ = c.w.Flush()
		call.send = func(api.Message) {}
	case LateAnswer:
		time.Sleep(LateBy) // VPP's only thread would block everything, too
	}
	switch {
	case fault == Refusal && messages[req.GetMessageName()+"_reply"] != nil:
		call.refuse(req, api.UNSPECIFIED)
	case s.refused[req.GetMessageName()] != 0:
		call.refuse(req, s.refused[req.GetMessageName()])
	case h == nil:
		s.t.Errorf("vpptest does not support %s", req.GetMessageName())
		return false
	default:
		h(call, req)
	}
	return fault != CutAfter
}

func (c *client) send(context uint32, m api.Message) {
	id, ok := c.ids[m.GetMessageName()]
	if !ok {
		c.server.t.Errorf("vpptest: %s is in no message table", m.GetMessageName())
		return
	}
	data, err := codec.EncodeMsg(m, id)
	if err != nil {
		c.server.t.Errorf("vpptest: encoding %s: %v", m.GetMessageName(), err)
		return
	}
	header := data[2:]
	if m.GetMessageType() == api.RequestMessage { // some details also have a client index
		header = data[6:]
	}
	binary.BigEndian.PutUint32(header, context)
	_ = vppapi.WriteFrame(c.w, data)
}

// moduleOf returns the name of a message's API file, such as "ip" or "acl".
func moduleOf(m api.Message) string {
	path := typeOf(m).PkgPath()
	return path[strings.LastIndexByte(path, '/')+1:]
}
