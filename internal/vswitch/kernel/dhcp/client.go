package dhcp

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Device is the device of a client. Methods are not called concurrently.
type Device interface {
	// Ready returns why packets cannot be sent now, such as a missing carrier.
	Ready() error
	// Served reports whether the device has an IPv4 address from another source.
	Served() (bool, error)
	// Leased returns the lease of an earlier process, as far as the device's state shows it; nil if
	// none.
	Leased() (*Lease, error)
	// Apply sets the lease of the device; nil removes it. It is idempotent.
	Apply(*Lease) error
	// Broadcast opens a socket that broadcasts and receives packets to the DHCP client port, even
	// without an address. It also returns the MAC.
	Broadcast() (net.PacketConn, net.HardwareAddr, error)
	// Unicast opens a socket with an address of the device.
	Unicast(from netip.Addr) (net.PacketConn, error)
}

// Options of a client. Device and Report are required.
type Options struct {
	Device Device
	// Report is called with a new or changed lease, and with nil when it is lost. It is called from
	// the client's goroutine, not after Stop.
	Report func(*Lease)
	// Log defaults to slog.Default().
	Log *slog.Logger
	// FirstTimeout is the first retransmission timeout, which doubles up to 16-fold. Default: 4 s.
	FirstTimeout time.Duration
}

const (
	firstTimeout = 4 * time.Second
	maxDoublings = 4
	minRenewal   = time.Minute
	lookAgain    = 10 * time.Second
)

// Client keeps a lease for a device.
type Client struct {
	device  Device
	report  func(*Lease)
	log     *slog.Logger
	timeout time.Duration

	cancel context.CancelFunc
	done   chan struct{}
	nudge  chan struct{}

	mu      sync.Mutex
	current *Lease
}

// Start starts a client. The caller stops it.
func Start(o Options) *Client {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		device: o.Device, report: o.Report, log: o.Log, timeout: o.FirstTimeout,
		cancel: cancel, done: make(chan struct{}), nudge: make(chan struct{}, 1),
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	if c.timeout <= 0 {
		c.timeout = firstTimeout
	}
	go c.run(ctx)
	return c
}

// Lease returns the current lease, or nil.
func (c *Client) Lease() *Lease {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.current
}

// Check notifies the client that its device may have changed.
func (c *Client) Check() {
	select {
	case c.nudge <- struct{}{}:
	default:
	}
}

// Stop ends the client. The device keeps its lease, which the next client resumes.
func (c *Client) Stop() {
	c.cancel()
	<-c.done
}

// Release ends the client and releases the lease.
func (c *Client) Release() error {
	c.Stop()
	if lease := c.Lease(); lease != nil {
		if err := c.release(lease); err != nil {
			c.log.Warn("Releasing the DHCP lease failed; the server keeps it until it expires", "address", lease.Address, "error", err)
		}
	}
	c.set(nil)
	return c.device.Apply(nil)
}

func (c *Client) set(l *Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.current = l
}

func (c *Client) run(ctx context.Context) {
	defer close(c.done)
	lease := c.resume(ctx)
	for ctx.Err() == nil {
		if lease == nil {
			lease = c.acquire(ctx)
			continue
		}
		lease = c.hold(ctx, lease)
	}
}

// wait returns true at the time or after Check, and false if ctx ends. The zero time means never.
func (c *Client) wait(ctx context.Context, until time.Time) bool {
	var timer <-chan time.Time
	if !until.IsZero() {
		t := time.NewTimer(time.Until(until))
		defer t.Stop()
		timer = t.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer:
	case <-c.nudge:
	}
	return true
}

// timeoutOf returns the timeout of an attempt, with random jitter because many nodes may start at
// once.
func (c *Client) timeoutOf(attempt int) time.Duration {
	timeout := c.timeout << min(attempt, maxDoublings)
	return timeout + rand.N(c.timeout/2) - c.timeout/4
}

// resume continues with the address of an earlier process, if the server agrees or does not answer.
func (c *Client) resume(ctx context.Context) *Lease {
	found, err := c.device.Leased()
	if err != nil {
		c.log.Warn("Reading the DHCP lease of an earlier process failed", "error", err)
	}
	if found == nil {
		return nil
	}
	c.set(found)
	c.report(found)
	for attempt := range 2 {
		lease, err := c.reboot(ctx, found.Address.Addr(), c.timeoutOf(attempt))
		switch {
		case ctx.Err() != nil:
			return found
		case err == nil:
			c.log.Info("DHCP lease continued", "address", lease.Address, "server", lease.Server, "until", lease.Expires)
			return lease
		case errors.Is(err, errRefused):
			c.lose("refused", found)
			return nil
		}
	}
	c.log.Warn("No DHCP server confirmed the address; using it until the lease expires", "address", found.Address, "until", found.Expires)
	now := time.Now()
	kept := *found
	if !kept.Expires.IsZero() {
		kept.Renew, kept.Rebind = now, now
	}
	return &kept
}

// acquire returns a new lease; nil when ctx ends.
func (c *Client) acquire(ctx context.Context) *Lease {
	var said string
	tell := func(text string, args ...any) {
		if text != said {
			c.log.Warn(text, args...)
			said = text
		}
	}
	for attempt := 0; ctx.Err() == nil; {
		if err := c.device.Ready(); err != nil {
			tell("No address is asked for by DHCP yet: the device cannot be used", "error", err)
			attempt = 0
			c.wait(ctx, time.Now().Add(lookAgain))
			continue
		}
		served, err := c.device.Served()
		if err == nil && served {
			tell("DHCP client paused: the interface has an IPv4 address of another owner")
			attempt = 0
			c.wait(ctx, time.Now().Add(lookAgain))
			continue
		}
		next := time.Now().Add(c.timeoutOf(attempt))
		lease, err := c.discover(ctx, time.Until(next))
		if err == nil {
			c.log.Info("DHCP lease obtained", "address", lease.Address, "router", lease.Router(), "server", lease.Server, "until", lease.Expires)
			return lease
		}
		if ctx.Err() != nil {
			break
		}
		attempt++
		tell("No DHCP server has leased an address yet; trying again", "error", err)
		c.wait(ctx, next) // an error may return early
	}
	return nil
}

func (c *Client) hold(ctx context.Context, lease *Lease) *Lease {
	for {
		retry := c.apply(lease)
		now := time.Now()
		switch {
		case lease.expired(now):
			c.lose("expired", lease)
			return nil
		case lease.Expires.IsZero() || now.Before(lease.Renew):
			if !c.wait(ctx, earlier(lease.Renew, retry)) {
				return lease
			}
			continue
		}
		next, err := c.prolong(ctx, lease, now)
		switch {
		case ctx.Err() != nil:
			return lease
		case errors.Is(err, errRefused):
			c.lose("refused", lease)
			return nil
		case err == nil:
			lease = next
		}
	}
}

// prolong tries once to extend the lease. Without an answer, it returns when it is time to retry or
// the device changed.
func (c *Client) prolong(ctx context.Context, lease *Lease, now time.Time) (*Lease, error) {
	ask, until := c.renew, lease.Rebind
	if !now.Before(lease.Rebind) || !lease.Server.IsValid() {
		ask, until = c.rebind, lease.Expires
	}
	// RFC 2131: half of the remaining time, but not too often.
	again := now.Add(min(until.Sub(now), max(until.Sub(now)/2, minRenewal)))
	next, err := ask(ctx, lease, min(time.Until(again), c.timeout))
	if err == nil || errors.Is(err, errRefused) || ctx.Err() != nil {
		return next, err
	}
	c.log.Info("DHCP lease not renewed yet, retrying", "address", lease.Address, "until", lease.Expires, "error", err)
	c.wait(ctx, again)
	return nil, err
}

// apply applies the lease to the device. If that fails, it returns the time to retry, otherwise the
// zero time.
func (c *Client) apply(lease *Lease) (retry time.Time) {
	if err := c.device.Apply(lease); err != nil {
		c.log.Error("Applying the DHCP lease failed, retrying", "address", lease.Address, "error", err)
		retry = time.Now().Add(lookAgain)
	}
	before := c.Lease()
	c.set(lease)
	if !lease.same(before) {
		c.report(lease)
	}
	return retry
}

func (c *Client) lose(why string, lease *Lease) {
	c.log.Warn("DHCP lease "+why, "address", lease.Address)
	if err := c.device.Apply(nil); err != nil {
		c.log.Error("Removing the address of a lost DHCP lease failed", "address", lease.Address, "error", err)
	}
	c.set(nil)
	c.report(nil)
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
