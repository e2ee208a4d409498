package routes

import (
	"errors"
	"maps"
	"slices"
	"sync"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/models"
)

// errInTheWay: a foreign route to the same destination exists.
var errInTheWay = errors.New("there is a route that is not ours")

// blocked remembers the values that could not be made because of routes of others, so
// that they are tried again when those are gone. It is safe for concurrent use.
type blocked struct {
	mu     sync.Mutex
	values map[string]*vpp_l3.Route
}

// note takes note of how making the route went.
func (b *blocked) note(route *vpp_l3.Route, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !errors.Is(err, errInTheWay) {
		if len(b.values) > 0 { // a key takes a while to make
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
