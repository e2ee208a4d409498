package nft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/contiv/contiv/netlink/namespace"

	"github.com/google/nftables"
	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Conn is a connection to the nftables of a network namespace. Its lock is held by whoever
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
	err := d.Gen.fault.ask("connect")
	var conn *nftables.Conn
	if err == nil {
		conn, err = d.open()
	}
	if err == nil {
		err = fn(conn)
	}
	if err != nil {
		d.close()
	}
	return err
}

// Commit makes changes of tables happen in one transaction, all or nothing. The caller
// holds the lock.
func (d *Conn) Commit(batches ...*Batch) error {
	var tables []string
	for _, b := range batches {
		if !b.Empty() {
			tables = append(tables, b.name())
		}
	}
	if len(tables) == 0 {
		return nil
	}
	err := d.Gen.Own(func() error {
		if err := d.Gen.fault.ask("commit"); err != nil {
			return err
		}
		c, err := d.openWriter()
		if err == nil {
			err = send(c, batches)
		}
		if err == nil {
			err = d.Gen.fault.ask("committed")
		}
		return err
	}, tables...)
	if err != nil {
		d.close() // there may be answers left in it
	}
	return err
}

func (d *Conn) openWriter() (*netlink.Conn, error) {
	if d.writer != nil {
		return d.writer, nil
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, &netlink.Config{NetNS: int(d.NS.Handle)})
	if err == nil {
		d.writer = c
		err = wideBuffers(c)
	}
	if err != nil {
		return nil, fmt.Errorf("opening netlink for nftables: %w", err)
	}
	return c, nil
}

// Locked calls fn without other changes of our tables at the same time.
func (d *Conn) Locked(fn func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fn()
}

// Unchanged reports whether a table, as in "inet contiv-acl", is as it was at a generation, as
// all changes since then were our own, to other tables. now is the present generation.
func (d *Conn) Unchanged(table string, since uint32) (now uint32, ok bool) {
	return d.Gen.Unchanged(table, since)
}

// Has reports whether a set has an element, without reading the others.
func (d *Conn) Has(family byte, table string, e Element) (bool, error) {
	b := &Batch{Table: table, Family: family}
	b.elements(nftMsgGetSetElem, 0, []Element{e}, 0)
	if b.err != nil {
		return false, b.err
	}
	if err := d.Gen.fault.ask("get"); err != nil {
		return false, err
	}
	req := &nl.NetlinkRequest{
		NlMsghdr: unix.NlMsghdr{Len: unix.SizeofNlMsghdr, Type: nfnlSubsysNFTables<<8 | nftMsgGetSetElem, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK},
		Sockets:  map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: d.Gen.socket},
	}
	req.AddRawData(b.messages[0].Data)
	_, err := req.Execute(unix.NETLINK_NETFILTER, 0)
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an element of set %q: %w", e.Set, err)
	}
	return true, nil
}

// ReadTable returns what a table holds, nil if there is no such table, with the generation
// that it was read at, 0 if it changed meanwhile.
func (d *Conn) ReadTable(family byte, table string) (*Table, uint32, error) {
	for try := 1; ; try++ {
		before, known := d.Gen.Current()
		t, err := d.Gen.readTable(family, table)
		if errors.Is(err, nl.ErrDumpInterrupted) && try < 8 {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if after, ok := d.Gen.Current(); known && ok && after == before {
			return t, after, nil
		}
		return t, 0, nil
	}
}
