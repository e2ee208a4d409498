package vpptest

import (
	"maps"
	"slices"

	"go.fd.io/govpp/binapi/ip_types"
)

// none is VPP's ~0: no object, or all.
const none = ^uint32(0)

// pool numbers objects like VPP: the number freed last is reused first.
type pool[T any] struct {
	items map[uint32]T
	free  []uint32
}

func (p *pool[T]) add(item T) uint32 {
	id := uint32(len(p.items))
	if n := len(p.free); n > 0 {
		id, p.free = p.free[n-1], p.free[:n-1]
	}
	if p.items == nil {
		p.items = map[uint32]T{}
	}
	p.items[id] = item
	return id
}

func (p *pool[T]) get(id uint32) (T, bool) {
	item, ok := p.items[id]
	return item, ok
}

func (p *pool[T]) remove(id uint32) {
	if _, ok := p.items[id]; ok {
		delete(p.items, id)
		p.free = append(p.free, id)
	}
}

// each calls do in number order.
func (p *pool[T]) each(do func(id uint32, item T)) {
	for _, id := range slices.Sorted(maps.Keys(p.items)) {
		do(id, p.items[id])
	}
}

// hasHostBits reports whether a prefix has host bits.
func hasHostBits(p ip_types.Prefix) bool { return p.ToIPNet().IP.String() != p.Address.ToIP().String() }
