package routes

import (
	"errors"
	"maps"
	"slices"
	"sync"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
)

var errInTheWay = errors.New("another program has a route to the same destination")

// blocked holds the values that foreign routes block, for a retry when these are gone. It is safe
// for concurrent use.
type blocked struct {
	mu     sync.Mutex
	values map[string]*vpp_l3.Route
}

func (b *blocked) note(route *vpp_l3.Route, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !errors.Is(err, errInTheWay) {
		if len(b.values) > 0 {
			delete(b.values, models.Key(route))
		}
		return
	}
	if b.values == nil {
		b.values = map[string]*vpp_l3.Route{}
	}
	b.values[models.Key(route)] = route
}

func (b *blocked) any() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.values) > 0
}

func (b *blocked) list() []*vpp_l3.Route {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Collect(maps.Values(b.values))
}
