package nft

import (
	"fmt"
	"sync"

	"github.com/contiv/contiv/netlink/namespace"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// nftConn is a connection to the nftables of a network namespace. Its lock is held by whoever
// changes our tables, so that what one has read is still true when it writes.
type Conn struct {
	NS *namespace.Namespace
	mu sync.Mutex
	// Connections to the kernel for reading and for writing; nil: to be opened.
	conn   *nftables.Conn
	writer *netlink.Conn
	Gen    generations
}

func Open(ns *namespace.Namespace) (*Conn, error) {
	d := &Conn{NS: ns}
	return d, d.Gen.open(ns.Handle)
}

// Release ends the connections for good.
func (d *Conn) Release() {
	d.Gen.close()
	d.close()
}

// Lock keeps other changes of our tables away.
func (d *Conn) Lock() { d.mu.Lock() }

func (d *Conn) Unlock() { d.mu.Unlock() }

// open returns the connection to the kernel. The caller holds the lock.
func (d *Conn) open() (*nftables.Conn, error) {
	if d.conn != nil {
		return d.conn, nil
	}
	conn, err := nftables.New(nftables.AsLasting(), nftables.WithNetNSFd(int(d.NS.Handle)), nftables.WithSockOptions(wideBuffers))
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	d.conn = conn
	return conn, nil
}

// close ends the connections; the next use opens others.
func (d *Conn) close() {
	if d.conn != nil {
		_ = d.conn.CloseLasting()
		d.conn = nil
	}
	if d.writer != nil {
		_ = d.writer.Close()
		d.writer = nil
	}
}

// Do calls fn with the connection. After an error there may be answers left in it.
func (d *Conn) Do(fn func(*nftables.Conn) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DoLocked(fn)
}

func (d *Conn) DoLocked(fn func(*nftables.Conn) error) error {
	conn, err := d.open()
	if err == nil {
		err = fn(conn)
	}
	if err != nil {
		d.close()
	}
	return err
}

// Commit makes a transaction happen, all or nothing. The caller holds the lock.
func (d *Conn) Commit(b *Batch) error {
	return d.Gen.Own(func() error {
		if d.writer == nil {
			c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(d.NS.Handle)})
			if err != nil {
				return fmt.Errorf("opening netlink for nftables: %w", err)
			}
			d.writer = c
			if err := wideBuffers(c); err != nil {
				return fmt.Errorf("opening netlink for nftables: %w", err)
			}
		}
		return b.send(d.writer)
	})
}

// Locked calls fn in the network namespace, without other changes of our tables at the
// same time.
func (d *Conn) Locked(fn func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.NS.Run(fn)
}
