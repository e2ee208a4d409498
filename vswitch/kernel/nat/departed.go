package nat

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/netlink/nft"
	"golang.org/x/sys/unix"
)

// departed holds removed backends that nat-clients may still contain. External clients can fill
// nat-clients with a million elements, which take minutes to list, so ForgetClients deletes them in
// the background. Meanwhile the rules send no packets to a removed backend, because they check that
// the service can use it (balance.go). The lock of natDriver guards departed.
type departed struct {
	gone backendSets
	// valid, after a restart, holds the present backends of all ports: any other backend was
	// removed unseen. nil: all such clients are deleted.
	valid   backendSets
	started bool
	// more is signalled when clients need deletion.
	more chan<- struct{}
}

func (d *departed) signal() {
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// start records the kernel's backends at the agent's start.
func (d *departed) start(valid backendSets) {
	if !d.started && len(valid) > 0 {
		d.valid = valid
		d.signal()
	}
	d.started = true
}

func (d *departed) leave(gone backendSets) {
	for key, backends := range gone {
		if key.set == mapClients {
			for b := range backends {
				d.gone.add(key, b)
			}
			d.signal()
		}
	}
}

// come removes backends that services have again.
func (d *departed) come(f *natFamily, elements []nft.Element) {
	if len(d.gone) == 0 && d.valid == nil {
		return
	}
	here := backendSets{}
	here.collect(f, elements, portsIn(elements))
	for key, backends := range here {
		for b := range backends {
			delete(d.gone[key], b)
			if d.valid != nil {
				d.valid.add(key, b)
			}
		}
		if len(d.gone[key]) == 0 {
			delete(d.gone, key)
		}
	}
}

func (d *departed) has(key clientsKey, backend string) bool {
	return d.gone[key][backend] || d.valid[key] != nil && !d.valid[key][backend]
}

func (d *departed) clone() *departed {
	c := &departed{gone: clone(d.gone)}
	if d.valid != nil {
		c.valid = clone(d.valid)
	}
	return c
}

func clone(s backendSets) backendSets {
	c := make(backendSets, len(s))
	for key, backends := range s {
		c[key] = maps.Clone(backends)
	}
	return c
}

// settle removes the backends whose clients were deleted.
func (d *departed) settle(done *departed) {
	for key, backends := range done.gone {
		maps.DeleteFunc(d.gone[key], func(b string, _ bool) bool { return backends[b] })
		if len(d.gone[key]) == 0 {
			delete(d.gone, key)
		}
	}
	if done.valid != nil {
		d.valid = nil
	}
}

// ForgetClients deletes the clients of removed backends until closing is closed. It works at most
// half of the time and uses its own nftables connection, so it does not block other work.
func (v *Driver) ForgetClients(closing <-chan struct{}) {
	for {
		select {
		case <-closing:
			return
		case <-v.nat.more:
		}
		begin := time.Now()
		if err := v.forgetDeparted(closing); err != nil {
			v.Log.Warn("Clients of services with session affinity are still remembered with endpoints that are gone, until they have been away for as long as their affinity lasts", "error", err)
		}
		select {
		case <-closing:
			return
		case <-time.After(time.Since(begin)):
		}
	}
}

// forgetDeparted does one round.
func (v *Driver) forgetDeparted(closing <-chan struct{}) error {
	conn, err := v.scanner()
	if err != nil {
		return err
	}
	done := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-closing:
			conn.Stop()
		case <-done:
		}
	}()
	defer func() {
		close(done)
		<-stopped
		if conn != v.nat.Conn {
			conn.Release()
		}
	}()
	for _, d := range []dnat{v.dnat4(), v.dnat6()} {
		if err := d.forgetDeparted(conn); err != nil {
			return err
		}
	}
	return nil
}

func (v dnat) forgetDeparted(conn *nft.Conn) error {
	v.nat.Lock()
	known := v.nat.departed[v.family]
	found := known.clone()
	v.nat.Unlock()
	if len(found.gone) == 0 && found.valid == nil {
		return nil
	}
	const attempts, chunk, most = 3, 1000, 100_000
	for attempt := 0; attempt < attempts; {
		var list []nft.Element
		incomplete, err := conn.Scan(v.family.proto, natTable, mapClients, func(e nft.Element) {
			if key, backend, ok := clientOf(e); ok && len(list) < most && found.has(key, backend) {
				list = append(list, e)
			}
		})
		if err != nil {
			return err
		}
		listed := len(list)
		list = nft.Sorted(list)
		for some := range slices.Chunk(list, chunk) {
			if err := v.forgetSome(some, known); err != nil {
				return err
			}
		}
		switch {
		case listed == most:
		case incomplete, len(list) < listed: // some elements were listed twice, others not at all
			attempt++
		default:
			attempt = attempts
		}
	}
	v.nat.Lock()
	defer v.nat.Unlock()
	known.settle(found)
	return nil
}

func (v dnat) forgetSome(list []nft.Element, known *departed) error {
	v.nat.Lock()
	defer v.nat.Unlock()
	return v.deleteClients(slices.DeleteFunc(list, func(e nft.Element) bool {
		key, backend, _ := clientOf(e)
		return !known.has(key, backend)
	}))
}

// deleteClients deletes clients, which may also expire at any time.
func (v dnat) deleteClients(list []nft.Element) error {
	if len(list) == 0 {
		return nil
	}
	b := v.family.batch()
	b.DeleteElements(list)
	err := v.nat.Commit(b)
	switch {
	case !errors.Is(err, unix.ENOENT):
		return err
	case len(list) == 1:
		return nil
	}
	half := len(list) / 2
	return errors.Join(v.deleteClients(list[:half]), v.deleteClients(list[half:]))
}

// scanner returns a separate nftables connection for long lists.
func (v *Driver) scanner() (*nft.Conn, error) {
	if v.NS == nil {
		return v.nat.Conn, nil
	}
	return nft.Open(v.NS)
}

func clientOf(e nft.Element) (key clientsKey, backend string, ok bool) {
	filler := len(native32(0))
	if len(e.Key) <= portKeyLength || len(e.Data) <= filler {
		return key, "", false
	}
	return clientsKey{mapClients, e.Key[:portKeyLength]}, e.Data[filler:], true
}
