package processor

import (
	"net/netip"
	"slices"

	"github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/plugins/policy/cache"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"github.com/contiv/contiv/models"
)

// set is the address set of a selection. It is sorted, so that a change of one member does not
// require a scan of the others.
type set struct {
	users             int
	name, description string
	given             map[PodID][]netip.Addr
	addrs             []netip.Addr
	texts             []string
	// touched contains current and former members.
	touched map[PodID]struct{}
}

func (p *Processor) useSet(s *cache.Selection) {
	if known := p.sets[s]; known != nil {
		known.users++
		return
	}
	a := &set{users: 1, name: configurator.SetName(s.String()), description: s.String(), given: map[PodID][]netip.Addr{}, touched: map[PodID]struct{}{}}
	p.sets[s] = a
	p.dirty.sets[s] = struct{}{}
	for id := range s.Members() {
		if addrs := p.addressesOf(id); len(addrs) > 0 {
			a.given[id] = addrs
			a.addrs = append(a.addrs, addrs...)
		}
	}
	slices.SortFunc(a.addrs, netip.Addr.Compare)
	a.texts = texts(a.addrs)
}

func (p *Processor) disuseSet(s *cache.Selection) {
	if p.sets[s].users--; p.sets[s].users > 0 {
		return
	}
	p.gone[models.Key(&filter.AddressSet{Name: p.sets[s].name})] = struct{}{}
	delete(p.sets, s)
	delete(p.dirty.sets, s)
}

func (p *Processor) touch(s *cache.Selection, id PodID) {
	if a := p.sets[s]; a != nil {
		a.touched[id] = struct{}{}
		p.dirty.sets[s] = struct{}{}
	}
}

// Each address belongs to at most one member.
func (p *Processor) addressSet(s *cache.Selection) *filter.AddressSet {
	a := p.sets[s]
	for id := range a.touched { // remove first: an address may have moved between members
		a.remove(a.given[id])
		delete(a.given, id)
	}
	for id := range a.touched {
		if _, member := s.Members()[id]; !member {
			continue
		}
		if addrs := p.addressesOf(id); len(addrs) > 0 {
			a.given[id] = addrs
			a.insert(addrs)
		}
	}
	clear(a.touched)
	return &filter.AddressSet{Name: a.name, Description: a.description, Addresses: slices.Clone(a.texts)}
}

func (a *set) remove(addrs []netip.Addr) {
	for _, addr := range addrs {
		if i, found := slices.BinarySearchFunc(a.addrs, addr, netip.Addr.Compare); found {
			a.addrs, a.texts = slices.Delete(a.addrs, i, i+1), slices.Delete(a.texts, i, i+1)
		}
	}
}

func (a *set) insert(addrs []netip.Addr) {
	for _, addr := range addrs {
		if i, found := slices.BinarySearchFunc(a.addrs, addr, netip.Addr.Compare); !found {
			a.addrs, a.texts = slices.Insert(a.addrs, i, addr), slices.Insert(a.texts, i, addr.String())
		}
	}
}
