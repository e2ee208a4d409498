package cniserver

import (
	"net"
	"sync"
)

type handover struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newHandover(addr net.Addr) *handover {
	return &handover{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (h *handover) give(conn net.Conn) {
	select {
	case h.conns <- conn:
	case <-h.closed:
		conn.Close()
	}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case conn := <-h.conns:
		return conn, nil
	case <-h.closed:
		return nil, net.ErrClosed
	}
}

func (h *handover) Close() error {
	h.once.Do(func() { close(h.closed) })
	return nil
}

func (h *handover) Addr() net.Addr { return h.addr }

// startedConn is a connection with its first bytes already read.
type startedConn struct {
	net.Conn
	start []byte
}

func (c *startedConn) Read(p []byte) (int, error) {
	if len(c.start) == 0 {
		return c.Conn.Read(p)
	}
	n := copy(p, c.start)
	c.start = c.start[n:]
	return n, nil
}
