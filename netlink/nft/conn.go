package nft

import (
	"errors"
	"fmt"
	"sync"

	"github.com/mdlayher/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Conn is a connection to the nftables of a network namespace. Whoever changes our tables holds its
// lock from reading to writing, so that the contents it read are still current.
type Conn struct {
	mu     sync.Mutex
	kernel Kernel
	gen    generations
}

// New returns a connection to a kernel, which Release closes.
func New(k Kernel) *Conn { return &Conn{kernel: k, gen: generations{kernel: k}} }

// Release ends the connection.
func (d *Conn) Release() { d.kernel.Close() }

// Lock keeps other changes of our tables away.
func (d *Conn) Lock() { d.mu.Lock() }

func (d *Conn) Unlock() { d.mu.Unlock() }

// Commit makes changes of tables happen in one transaction, all or nothing. The caller
// holds the lock.
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

// DropTables removes the tables of a name in some families, where they exist.
func (d *Conn) DropTables(name string, families ...byte) error {
	var batches []*Batch
	for _, family := range families {
		b := &Batch{Table: name, Family: family}
		b.AddTable() // so that there is one to delete
		b.DeleteTable()
		batches = append(batches, b)
	}
	return d.Locked(func() error { return d.Commit(batches...) })
}

// Locked calls fn without other changes of our tables at the same time.
func (d *Conn) Locked(fn func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return fn()
}

// Generation returns the present generation of the ruleset; not ok: the kernel did not say.
func (d *Conn) Generation() (id uint32, ok bool) { return d.gen.current() }

// Unchanged reports whether a table, as in "inet contiv-acl", is as it was at a generation, as
// all changes since then were our own, to other tables. now is the present generation.
func (d *Conn) Unchanged(table string, since uint32) (now uint32, ok bool) {
	return d.gen.unchanged(table, since)
}

// Has reports whether a set has an element, without reading the others.
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

// Elements returns the elements of a set, sorted; nothing if there is no such set.
func (d *Conn) Elements(family byte, table, set string) ([]Element, error) {
	return d.gen.elements(family, table, set)
}

// Packets returns the counters of the elements of a set, by key.
func (d *Conn) Packets(family byte, table, set string) (map[string]uint64, error) {
	return d.gen.packets(family, table, set)
}

// ReadTable returns the contents of a table, nil if it does not exist, and their generation, 0 if
// it changed meanwhile.
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
