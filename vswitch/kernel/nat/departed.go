package nat

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/contiv/contiv/netlink/nft"
	"golang.org/x/sys/unix"
)

// departed are backends that have gone, and whose clients the kernel may still remember in nat-clients. There may be a million
// clients, which the kernel lists in minutes, and clients outside can see to that. So they are forgotten in the background. Nothing comes to a backend that is
// gone meanwhile: rules use what is remembered only if the service has it (balance.go). The lock of the natDriver guards it.
type departed struct {
	gone backendSets
	// valid, after a restart, are the backends that ports have: all others have gone unseen. nil: that is done.
	valid   backendSets
	started bool
	// more is written to when there is something to forget.
	more chan<- struct{}
}

func (d *departed) signal() {
	select {
	case d.more <- struct{}{}:
	default:
	}
}

// start is for what the kernel has when the agent starts.
func (d *departed) start(valid backendSets) {
	if !d.started && len(valid) > 0 {
		d.valid = valid
		d.signal()
	}
	d.started = true
}

// leave adds backends that are gone.
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

// come is for backends that services have.
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

// has reports whether a backend is gone.
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

// settle removes what has been forgotten.
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

// ForgetClients forgets clients of backends that have gone until closing is closed. It takes at most half of the time, and
// a connection to nftables of its own, so that nobody waits for it.
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

// forgetDeparted forgets what there is to forget now.
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
		case listed == most: // there may be more
		case incomplete, len(list) < listed: // some were listed twice, and others not at all
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

// forgetSome forgets clients whose backends are still gone.
func (v dnat) forgetSome(list []nft.Element, known *departed) error {
	v.nat.Lock()
	defer v.nat.Unlock()
	return v.deleteClients(slices.DeleteFunc(list, func(e nft.Element) bool {
		key, backend, _ := clientOf(e)
		return !known.has(key, backend)
	}))
}

// deleteClients deletes clients. The kernel forgets as well, at any time.
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

// scanner returns a connection to nftables for a list that takes long.
func (v *Driver) scanner() (*nft.Conn, error) {
	if v.NS == nil { // in tests
		return v.nat.Conn, nil
	}
	return nft.Open(v.NS)
}

// clientOf returns what a client is remembered for.
func clientOf(e nft.Element) (key clientsKey, backend string, ok bool) {
	filler := len(native32(0))
	if len(e.Key) <= portKeyLength || len(e.Data) <= filler {
		return key, "", false
	}
	return clientsKey{mapClients, e.Key[:portKeyLength]}, e.Data[filler:], true
}
