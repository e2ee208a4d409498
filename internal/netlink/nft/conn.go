package nft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Conn is a connection to the nftables of a network namespace. A writer of our tables holds the
// lock from its read to its write, so that its read stays current.
type Conn struct {
	mu     sync.Mutex
	kernel Kernel
	gen    generations
}

// New returns a connection to a kernel. Release closes the kernel.
func New(k Kernel) *Conn { return &Conn{kernel: k, gen: generations{kernel: k}} }

// Release ends the connection.
func (d *Conn) Release() { d.kernel.Close() }

// Lock excludes other changes of our tables.
func (d *Conn) Lock() { d.mu.Lock() }

func (d *Conn) Unlock() { d.mu.Unlock() }

// Commit applies the batches in one transaction, all or nothing. The caller holds the lock.
func (d *Conn) Commit(batches ...*Batch) error {
	var tables []string
	var messages []netlink.Message
	for _, b := range batches {
		if b.err != nil {
			return b.err
		}
		if !b.Empty() {
			tables = append(tables, b.Name())
			messages = append(messages, b.messages...)
		}
	}
	if len(tables) == 0 {
		return nil
	}
	return d.gen.record(func() error {
		if err := d.gen.fault.ask("commit"); err != nil {
			return err
		}
		if err := d.kernel.Commit(messages); err != nil {
			return err
		}
		return d.gen.fault.ask("committed")
	}, tables...)
}

// DropTables deletes the tables with a name in some families, if they exist.
func (d *Conn) DropTables(name string, families ...byte) error {
	var batches []*Batch
	for _, family := range families {
		b := &Batch{Table: name, Family: family}
		b.AddTable() // so that the deletion succeeds
		b.DeleteTable()
		batches = append(batches, b)
	}
	return d.Locked(func() error { return d.Commit(batches...) })
}

// Locked calls fn with the lock held.
func (d *Conn) Locked(fn func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fn()
}

// Generation returns the current generation of the ruleset. ok is false if the kernel did not
// return it.
func (d *Conn) Generation() (id uint32, ok bool) { return d.gen.current() }

// Unchanged reports whether a table, e.g. "inet contiv-acl", is unchanged since a generation: all
// later changes were our own, to other tables. now is the current generation.
func (d *Conn) Unchanged(table string, since uint32) (now uint32, ok bool) {
	return d.gen.unchanged(table, since)
}

// Has reports whether a set has an element, without listing the set.
func (d *Conn) Has(family byte, table string, e Element) (bool, error) {
	b := &Batch{Table: table, Family: family}
	b.elements(nftMsgGetSetElem, 0, []Element{e}, 0)
	if b.err != nil {
		return false, b.err
	}
	if err := d.gen.fault.ask("get"); err != nil {
		return false, err
	}
	err := d.kernel.Ask(nftMsgGetSetElem, unix.NLM_F_ACK, b.messages[0].Data, func([]byte) {})
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for an element of set %q: %w", e.Set, err)
	}
	return true, nil
}

// Layout is ReadTable without the elements of sets and the generation.
func (d *Conn) Layout(family byte, table string) (t *Table, err error) {
	for range 8 {
		if t, err = d.gen.layout(family, table); !errors.Is(err, nl.ErrDumpInterrupted) {
			break
		}
	}
	return t, err
}

// Elements returns the sorted elements of a set; none if the set does not exist.
func (d *Conn) Elements(family byte, table, set string) ([]Element, error) {
	return d.gen.elements(family, table, set)
}

// Packets returns the counters of the elements of a set, by key.
func (d *Conn) Packets(family byte, table, set string) (map[string]uint64, error) {
	return d.gen.packets(family, table, set)
}

// ReadTable returns the contents of a table, or nil if it does not exist, and their generation, or
// 0 if it changed during the read.
func (d *Conn) ReadTable(family byte, table string) (*Table, uint32, error) {
	for try := 1; ; try++ {
		before, known := d.gen.current()
		t, err := d.gen.readTable(family, table)
		if errors.Is(err, nl.ErrDumpInterrupted) && try < 8 {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		if after, ok := d.gen.current(); known && ok && after == before {
			return t, after, nil
		}
		return t, 0, nil
	}
}
