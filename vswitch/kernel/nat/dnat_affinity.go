package nat

import (
	"errors"
	"fmt"

	"github.com/contiv/contiv/netlink/nft"

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
func (s backendSets) collect(f *natFamily, list []nft.Element) {
	for _, e := range list {
		if class, ok := classNamed(e.Set); ok && class.timeout != 0 {
			s.add(e.Key[:f.serviceLength], e.Data[len(f.nothing):])
		}
	}
}

// compare adds the backends that a value had and has not any more.
func (s backendSets) compare(f *natFamily, before, after []nft.Element) {
	was, is := backendSets{}, backendSets{}
	was.collect(f, before)
	is.collect(f, after)
	for service, backends := range was {
		for b := range backends {
			if !is[service][b] {
				s.add(service, b)
			}
		}
	}
}

// readClients returns what the kernel remembers, if it is wanted.
func (v dnat) readClients(wanted func(service, backend string) bool) (list []nft.Element, err error) {
	elements, err := v.nat.Elements(v.family.proto, natTable, mapAffinity)
	if err != nil {
		return nil, err
	}
	for _, e := range elements {
		if len(e.Key) > v.family.serviceLength && wanted(e.Key[:v.family.serviceLength], e.Data) {
			list = append(list, e)
		}
	}
	return list, nil
}

// forgetClients removes the clients of backends. The caller holds the lock.
func (v dnat) forgetClients(gone backendSets) error {
	if len(gone) == 0 {
		return nil
	}
	var err error
	for range 5 { // the kernel forgets as well, at any time
		var list []nft.Element
		list, err = v.readClients(func(service, backend string) bool { return gone[service][backend] })
		if err == nil && len(list) > 0 {
			b := v.family.batch()
			b.DeleteElements(list)
			err = v.nat.Commit(b)
		}
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("forgetting clients of backends that are gone: %w", err)
	}
	return nil
}
