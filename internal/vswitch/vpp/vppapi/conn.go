package vppapi

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/memclnt"
	"go.fd.io/govpp/codec"
	"golang.org/x/sys/unix"
)

// sockclntCreateID is the number of the first message, the only fixed one.
const sockclntCreateID = 15

// Conn is a connection to one VPP process. It is safe for concurrent use.
type Conn struct {
	nc    net.Conn
	index uint32
	ids   map[string]uint16 // message name → number
	crcs  map[string]string // message name → CRC
	names map[uint16]string

	out     chan []byte
	done    chan struct{}
	workers sync.WaitGroup

	handling sync.Mutex // held while a handler is called

	mu      sync.Mutex
	err     error // why it ended
	last    uint32
	pending map[uint32]handler
	events  map[uint16][]*subscription
	// likeRequests lists the details whose header also has a client index.
	likeRequests map[uint16]bool
}

// Dial connects to VPP's API socket; client is our name in VPP. The caller closes the connection.
func Dial(ctx context.Context, socket, client string) (*Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to VPP: %w", err)
	}
	c := &Conn{
		nc: nc, out: make(chan []byte, 256), done: make(chan struct{}),
		ids: map[string]uint16{}, crcs: map[string]string{}, names: map[uint16]string{},
		pending: map[uint32]handler{}, events: map[uint16][]*subscription{}, likeRequests: map[uint16]bool{},
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	reader := bufio.NewReaderSize(nc, 1<<16)
	err = c.open(reader, client)
	if !stop() {
		err = errors.Join(err, ctx.Err())
	}
	if err != nil {
		nc.Close()
		return nil, fmt.Errorf("connecting to VPP at %s: %w", socket, err)
	}
	totals.created.Add(1)
	totals.open.Add(1)
	c.workers.Go(func() { c.read(reader) })
	c.workers.Go(c.write)
	return c, nil
}

// open registers the client and reads the numbers of the messages.
func (c *Conn) open(r *bufio.Reader, client string) error {
	request, err := codec.EncodeMsg(&memclnt.SockclntCreate{Name: client}, sockclntCreateID)
	if err != nil {
		return err
	}
	if err := WriteFrame(c.nc, request); err != nil {
		return err
	}
	data, err := ReadFrame(r)
	if err != nil {
		return err
	}
	var reply memclnt.SockclntCreateReply
	if err := codec.DecodeMsg(data, &reply); err != nil {
		return fmt.Errorf("not a VPP binary API: %w", err)
	}
	if reply.Response != 0 {
		return fmt.Errorf("VPP refused the connection: %w", api.RetvalToVPPApiError(reply.Response))
	}
	c.index = reply.Index
	for _, m := range reply.MessageTable {
		text, _, _ := strings.Cut(m.Name, "\x00")
		text = strings.TrimSuffix(text, "\x13")
		at := strings.LastIndexByte(text, '_')
		if at < 0 {
			continue
		}
		name, crc := text[:at], text[at+1:]
		c.ids[name], c.crcs[name], c.names[m.Index] = m.Index, crc, name
	}
	return nil
}

// Close ends the connection. VPP keeps its configuration.
func (c *Conn) Close() error {
	c.end(ErrClosed)
	c.workers.Wait()
	return nil
}

// Done is closed when the connection ends; Err then returns the reason.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil before that.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	c.mu.Unlock()
	totals.open.Add(^uint64(0))
	close(c.done)
	c.nc.Close()
	c.handling.Lock()
	defer c.handling.Unlock()
	c.mu.Lock()
	pending := c.pending
	c.pending = nil
	c.mu.Unlock()
	totals.failed.Add(uint64(len(pending)))
	for _, handle := range pending {
		handle(0, nil, err)
	}
}

// Check returns the messages that VPP lacks or defines differently.
func (c *Conn) Check(msgs ...api.Message) (mismatches []Mismatch) {
	for _, m := range msgs {
		name, crc := m.GetMessageName(), m.GetCrcString()
		if c.crcs[name] != crc {
			mismatches = append(mismatches, Mismatch{Message: name, Ours: crc, Theirs: c.crcs[name]})
		}
	}
	return mismatches
}

func (c *Conn) id(m api.Message) (uint16, error) {
	if wrong := c.Check(m); wrong != nil {
		return 0, &UnknownMessageError{wrong[0]}
	}
	return c.ids[m.GetMessageName()], nil
}

// expect prepares for the details of a request.
func (c *Conn) expect(details api.Message) error {
	id, err := c.id(details)
	if err == nil && details.GetMessageType() == api.RequestMessage {
		c.mu.Lock()
		c.likeRequests[id] = true
		c.mu.Unlock()
	}
	return err
}

// handler receives the answers of a request, or the error that ended the connection. It returns
// whether more are expected. It must not block.
type handler func(msgID uint16, data []byte, err error) (more bool)

// send sends a request. Handlers are not called concurrently.
func (c *Conn) send(ctx context.Context, req api.Message, handle handler) (request uint32, err error) {
	id, err := c.id(req)
	if err != nil {
		return 0, err
	}
	data, err := codec.EncodeMsg(req, id)
	if err != nil {
		return 0, fmt.Errorf("encoding %s: %w", req.GetMessageName(), err)
	}
	if req.GetMessageType() != api.RequestMessage {
		return 0, fmt.Errorf("%s is no request", req.GetMessageName())
	}
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return 0, c.err
	}
	c.last++
	if c.last == 0 { // events have no context
		c.last = 1
	}
	request = c.last
	c.pending[request] = handle
	c.mu.Unlock()
	binary.BigEndian.PutUint32(data[2:], c.index)
	binary.BigEndian.PutUint32(data[6:], request)
	select {
	case c.out <- data:
		totals.sent.Add(1)
		return request, nil
	case <-ctx.Done():
		c.forget(request)
		return 0, ctx.Err()
	case <-c.done:
		c.forget(request)
		return 0, c.Err()
	}
}

// forget removes an unanswered request.
func (c *Conn) forget(request uint32) {
	if c.remove(request) {
		totals.failed.Add(1)
	}
}

// remove reports whether the request was pending.
func (c *Conn) remove(request uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, pending := c.pending[request]
	delete(c.pending, request)
	return pending
}

// write sends queued messages, and flushes when the queue is empty.
func (c *Conn) write() {
	w := bufio.NewWriterSize(c.nc, 1<<16)
	for {
		var msg []byte
		select {
		case msg = <-c.out:
		default:
			if err := w.Flush(); err != nil {
				c.end(fmt.Errorf("%w: %w", ErrClosed, err))
				return
			}
			select {
			case msg = <-c.out:
			case <-c.done:
				return
			}
		}
		if err := WriteFrame(w, msg); err != nil {
			c.end(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
	}
}

// read delivers messages from VPP to their receivers.
func (c *Conn) read(r *bufio.Reader) {
	for {
		data, err := ReadFrame(r)
		if err != nil {
			c.end(fmt.Errorf("%w: %w", ErrClosed, err))
			return
		}
		if len(data) < 6 {
			continue
		}
		c.dispatch(data)
	}
}

// dispatch passes a message to its receiver.
func (c *Conn) dispatch(data []byte) {
	id, request := binary.BigEndian.Uint16(data), binary.BigEndian.Uint32(data[2:])
	c.handling.Lock()
	defer c.handling.Unlock()
	c.mu.Lock()
	if c.likeRequests[id] && len(data) >= 10 {
		request = binary.BigEndian.Uint32(data[6:])
	}
	handle, subscribers := c.pending[request], c.events[id]
	c.mu.Unlock()
	switch {
	case subscribers != nil:
		for _, s := range subscribers {
			s.deliver(data)
		}
	case handle != nil:
		totals.replies.Add(1)
		if !handle(id, data, nil) && c.remove(request) {
			totals.done.Add(1)
		}
	}
}

// Peer returns the listening process in our PID namespace; 0 if it is not in it.
func (c *Conn) Peer() (pid int, err error) {
	uc, ok := c.nc.(*net.UnixConn)
	if !ok {
		return 0, errors.New("the connection to VPP is not over a Unix socket")
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	if err := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if err != nil {
		return 0, fmt.Errorf("reading the peer of VPP's socket: %w", err)
	}
	return int(cred.Pid), nil
}
