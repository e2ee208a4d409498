package nat

import (
	"errors"
	"fmt"
	"strings"

	"github.com/contiv/contiv/netlink/nft"

	"golang.org/x/sys/unix"
)

// Clients of services with session affinity are remembered by the kernel. They have
// to be forgotten when their backend is none any more.

// backendSets are backends by what their clients are remembered for.
type backendSets map[clientsKey]map[string]bool

// clientsKey is the port of a value in nat-clients, or a service in nat-affinity.
type clientsKey struct{ set, key string }

func (s backendSets) add(key clientsKey, backend string) {
	if s[key] == nil {
		s[key] = map[string]bool{}
	}
	s[key][backend] = true
}

func (s backendSets) collect(f *natFamily, list []nft.Element, ports map[clientsKey]string) {
	for _, e := range list {
		if class, ok := classNamed(e.Set); ok && class.timeout != 0 {
			service, backend := e.Key[:f.serviceLength], e.Data[len(f.nothing):]
			s.add(clientsKey{mapAffinity, service}, backend)
			for _, of := range []string{class.scope.port(), class.scope.apart()} {
				if port, ok := ports[clientsKey{of, service}]; ok {
					s.add(clientsKey{mapClients, port}, backend)
				}
			}
		}
	}
}

func portsIn(list []nft.Element) map[clientsKey]string {
	ports := map[clientsKey]string{}
	for _, e := range list {
		if strings.HasPrefix(e.Set, prefixPort) || strings.HasPrefix(e.Set, prefixApart) {
			ports[clientsKey{e.Set, e.Key}] = e.Data[len(native32(0)):]
		}
	}
	return ports
}

func (s backendSets) compare(f *natFamily, before, after []nft.Element) {
	was, is := backendSets{}, backendSets{}
	was.collect(f, before, portsIn(before))
	is.collect(f, after, portsIn(after))
	for key, backends := range was {
		for b := range backends {
			if !is[key][b] {
				s.add(key, b)
			}
		}
	}
}

// clientMaps are what clients are remembered in.
func (d *dnatState) clientMaps() []string {
	if d.byAddress {
		return []string{mapClients, mapAffinity}
	}
	return []string{mapClients}
}

// readClients returns what the kernel remembers in a map, if it is wanted.
func (v dnat) readClients(set string, wanted func(key clientsKey, backend string) bool) (list []nft.Element, err error) {
	elements, err := v.nat.Elements(v.family.proto, natTable, set)
	if errors.Is(err, unix.ENOENT) {
		return nil, nil // the sets are still those of an earlier version
	}
	if err != nil {
		return nil, err
	}
	length, filler := v.family.serviceLength, 0
	if set == mapClients {
		length, filler = portKeyLength, len(native32(0))
	}
	for _, e := range elements {
		if len(e.Key) > length && len(e.Data) > filler && wanted(clientsKey{set, e.Key[:length]}, e.Data[filler:]) {
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
	for _, set := range v.state.clientMaps() {
		var err error
		for range 5 { // the kernel forgets as well, at any time
			var list []nft.Element
			list, err = v.readClients(set, func(key clientsKey, backend string) bool { return gone[key][backend] })
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
	}
	return nil
}
