package publish

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/calico/datastore"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
)

// Etcd is a Place in etcd. Each address is a key with a lease, so that it disappears with the host.
type Etcd struct {
	host   string
	claims []*etcd.Claim
}

// NewEtcd returns the Place for the addresses of a host, at most one per family. ttl, in whole
// seconds, is how long the addresses of a vanished host stay; call Put more often.
func NewEtcd(db *etcd.Store, host string, addresses []netip.Addr, ttl time.Duration) *Etcd {
	e := &Etcd{host: host}
	for _, a := range addresses {
		// An existing key is from an earlier run on this host, or a mistake.
		anyLife := func([]byte) bool { return true }
		e.claims = append(e.claims, db.NewClaim(datastore.PeerKey(host, family(a)), []byte(a.String()), anyLife, ttl))
	}
	return e
}

// Put renews the leases concurrently, since each renewal takes long with a slow etcd.
func (e *Etcd) Put(ctx context.Context) error {
	errs := make([]error, len(e.claims))
	var renewing sync.WaitGroup
	for i, claim := range e.claims {
		renewing.Go(func() {
			other, err := claim.Hold(ctx)
			if err == nil && other != nil {
				err = &ConflictError{Host: e.host, Address: string(other)}
			}
			errs[i] = err
		})
	}
	renewing.Wait()
	return errors.Join(errs...)
}

func family(a netip.Addr) int {
	if a.Is4() {
		return 4
	}
	return 6
}

// ConflictError means that another host published its address under this host's name.
type ConflictError struct{ Host, Address string }

func (e *ConflictError) Error() string {
	return "another host says that it is " + e.Host + ", with the address " + e.Address + ": give each host its own --hostname"
}
