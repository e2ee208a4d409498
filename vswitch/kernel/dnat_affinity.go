package kernel

import (
	"errors"
	"fmt"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Clients of services with session affinity are remembered by the kernel. They have
// to be forgotten when their backend is none any more.

// backendSets are backends by the key of their service.
type backendSets map[string]map[string]bool

func (s backendSets) add(service, backend string) {
	if s[service] == nil {
		s[service] = map[string]bool{}
	}
	s[service][backend] = true
}

// collect adds the backends of services with session affinity.
func (s backendSets) collect(list []natElement) {
	for _, e := range list {
		if class, ok := classNamed(e.set); ok && class.timeout != 0 {
			s.add(e.key[:serviceLength], e.data[len(nothing):])
		}
	}
}

// compare adds the backends that a value had and has not any more.
func (s backendSets) compare(before, after []natElement) {
	was, is := backendSets{}, backendSets{}
	was.collect(before)
	is.collect(after)
	for service, backends := range was {
		for b := range backends {
			if !is[service][b] {
				s.add(service, b)
			}
		}
	}
}

// readClients returns what the kernel remembers, if it is wanted.
func (d *natDriver) readClients(wanted func(service, backend string) bool) (list []natElement, err error) {
	elements, err := d.gen.elements(natTable, mapAffinity)
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		if len(e.key) > serviceLength && wanted(e.key[:serviceLength], e.data) {
			list = append(list, e)
		}
	}
	return list, nil
}

// forgetClients removes the clients of backends. The caller holds the lock.
func (d *natDriver) forgetClients(gone backendSets) error {
	if len(gone) == 0 {
		return nil
	}
	var err error
	for range 5 { // the kernel forgets as well, at any time
		err = d.doLocked(func(*nftables.Conn) error {
			list, err := d.readClients(func(service, backend string) bool { return gone[service][backend] })
			if err != nil || len(list) == 0 {
				return err
			}
			b := &nftBatch{table: natTable}
			b.deleteElements(list)
			return d.commit(b)
		})
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("forgetting clients of backends that are gone: %w", err)
	}
	return nil
}
