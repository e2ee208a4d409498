package proxy

import (
	"context"
	"sync"
	"time"
)

// OtherProxiesPeriod is the interval of checks for other service proxies.
const OtherProxiesPeriod = 5 * time.Second

// Watch calls resync when another service proxy appears or disappears, or when reservations change,
// until ctx ends. It repeats the call after an error. It also retries health check ports and conntrack
// settings that failed. Lock guards the proxy against concurrent use.
func (p *Proxy) Watch(ctx context.Context, period time.Duration, lock sync.Locker, resync func() error) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for requested := (*string)(nil); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.Health.retry()
		p.Tracking.retry()
		now, last := p.OtherProxies.compare()
		switch _, known := p.OtherProxies.Conflicting(); {
		case !known: // the first resync checks itself
		case now == last && p.reservationsDiffer(ctx, lock):
			_ = resync() // it fails during another resync or shutdown: the next tick retries
		case now == last:
			requested = nil
		case requested != nil && *requested == now: // the resync is pending
		case resync() == nil:
			requested = &now
		}
	}
}

func (p *Proxy) reservationsDiffer(ctx context.Context, lock sync.Locker) bool {
	lock.Lock()
	defer lock.Unlock()
	return p.Translates() && p.Services.ChangedByReservations(p.inputs.reservations.Table(ctx))
}
