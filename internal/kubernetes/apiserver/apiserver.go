// Package apiserver resolves the addresses at which components of a cluster reach the API server.
package apiserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
)

// Addresses contains the addresses at which the cluster's components reach the API server, such as
// the address of a load balancer in front of it. No service gets them.
type Addresses struct {
	fixed []netip.AddrPort
	names []serverName
	look  func(ctx context.Context, host string) ([]netip.Addr, error)

	mu sync.Mutex
	// found holds the last known addresses by name.
	found map[serverName][]netip.AddrPort
}

type serverName struct {
	host string
	port uint16
}

const (
	lookupPeriod  = time.Minute
	lookupTimeout = 5 * time.Second
)

// Parse parses the texts of --api-server: HOST:PORT or URLs.
func Parse(texts []string) (*Addresses, error) {
	a := &Addresses{found: map[serverName][]netip.AddrPort{}, look: func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}}
	for _, text := range texts {
		full := text
		if !strings.Contains(text, "://") {
			full = "https://" + text
		}
		u, err := url.Parse(full)
		if err != nil || u.Hostname() == "" {
			return nil, fmt.Errorf("--api-server %q: use HOST:PORT or a URL such as https://192.168.16.254:6443", text)
		}
		port := uint64(443)
		if u.Scheme == "http" {
			port = 80
		}
		if u.Port() != "" {
			if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil || port == 0 {
				return nil, fmt.Errorf("--api-server %q: %s is no port from 1 to 65535", text, u.Port())
			}
		}
		if addr, err := kubeaddr.ParseAddr(u.Hostname()); err == nil {
			a.fixed = append(a.fixed, netip.AddrPortFrom(addr, uint16(port)))
		} else {
			a.names = append(a.names, serverName{u.Hostname(), uint16(port)})
		}
	}
	return a, nil
}

// All returns all known addresses, sorted.
func (a *Addresses) All() []netip.AddrPort {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := slices.Clone(a.fixed)
	for _, name := range a.names {
		list = append(list, a.found[name]...)
	}
	slices.SortFunc(list, netip.AddrPort.Compare)
	return slices.Compact(list)
}

// Run resolves the names until ctx ends. A name that cannot be resolved keeps its addresses.
func (a *Addresses) Run(ctx context.Context, log *slog.Logger) {
	if len(a.names) == 0 {
		return
	}
	tick := time.NewTicker(lookupPeriod)
	defer tick.Stop()
	for {
		a.resolve(ctx, log)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (a *Addresses) resolve(ctx context.Context, log *slog.Logger) {
	for _, name := range a.names {
		asked, cancel := context.WithTimeout(ctx, lookupTimeout)
		addrs, err := a.look(asked, name.host)
		cancel()
		if err != nil {
			log.Debug("The name of the API server cannot be resolved: services do not get its last known addresses", "name", name.host, "error", err)
			continue
		}
		var list []netip.AddrPort
		for _, addr := range addrs {
			list = append(list, netip.AddrPortFrom(addr.Unmap(), name.port))
		}
		a.mu.Lock()
		a.found[name] = list
		a.mu.Unlock()
	}
}
