// Package publish keeps this host's own addresses in etcd, where the route agents of other
// hosts find them.
//
// Each address is a key with a lease, so that it goes with the host: routes to a host that
// is dead lead nowhere.
package publish

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/contiv/calico/datastore"
	"github.com/contiv/contiv/store/etcd"
)

// Publisher publishes the addresses of one host.
type Publisher struct {
	Store *etcd.Store
	Host  string
	// Addresses: at most one of each family.
	Addresses []netip.Addr
	// TTL is how long others believe in a host that vanished, in whole seconds.
	TTL time.Duration
	Log *slog.Logger

	mu  sync.Mutex
	err error
}

// Err is why the addresses may not be in etcd; nil: they are.
func (p *Publisher) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Run publishes until ctx ends. Then the keys are left to the end of their lease: an agent that
// is restarted finds them, and no route is lost meanwhile.
func (p *Publisher) Run(ctx context.Context) {
	var claims []*etcd.Claim
	for _, a := range p.Addresses {
		family := 6
		if a.Is4() {
			family = 4
		}
		// Whatever is there was written by an earlier life of this host, or by mistake.
		anyLife := func([]byte) bool { return true }
		claims = append(claims, p.Store.NewClaim(datastore.PeerKey(p.Host, family), []byte(a.String()), anyLife, p.TTL))
	}
	for ctx.Err() == nil {
		for _, claim := range claims {
			other, err := claim.Hold(ctx)
			if ctx.Err() == nil {
				p.note(other, err)
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(p.TTL / 4):
		}
	}
}

func (p *Publisher) note(other []byte, err error) {
	if err == nil && other != nil {
		err = &ConflictError{Host: p.Host, Address: string(other)}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil && (p.err == nil || p.err.Error() != err.Error()) {
		p.Log.Error("The address of this host cannot be published: others have no route to its pods", "error", err)
	}
	p.err = err
}

// ConflictError says that another host has published its address under the name of this one.
type ConflictError struct{ Host, Address string }

func (e *ConflictError) Error() string {
	return "another host says that it is " + e.Host + ", with the address " + e.Address + ": give each host its own --hostname"
}
