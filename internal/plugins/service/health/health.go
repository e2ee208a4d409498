// Package health answers the health checks of load balancers. A service with the external traffic
// policy Local is checked at its healthCheckNodePort, because nodes without endpoints drop its
// packets. The responses have kube-proxy's format, which cloud load balancers expect:
//
//	GET / ──> 200, or 503 without endpoints
//	          X-Load-Balancing-Endpoint-Weight: 2
//	          {"service": {"namespace": "default", "name": "web"}, "localEndpoints": 2, "serviceProxyHealthy": true}
package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

const (
	requestTimeout = 5 * time.Second
	// maxConnections limits the connections of each port. Everybody may connect to it.
	maxConnections = 256
)

// Server answers the health checks of all services. It is safe for concurrent use.
type Server struct {
	healthy func() bool
	log     *slog.Logger

	mu    sync.Mutex
	ports map[uint16]*port
	// The arguments of the last Set.
	checks    []processor.HealthCheck
	addresses []netip.Addr
	refused   map[uint16]string // errors by port
	conns     sync.WaitGroup
}

type port struct {
	listeners []net.Listener
	addresses []netip.Addr
	server    *http.Server
	mu        sync.Mutex
	check     processor.HealthCheck
}

// New returns a server that does not listen yet. healthy reports whether this node translates
// services.
func New(healthy func() bool, log *slog.Logger) *Server {
	return &Server{healthy: healthy, log: log, ports: map[uint16]*port{}, refused: map[uint16]string{}}
}

// Set sets the health checks, and the addresses to listen at, or all if empty. The next Set or
// Retry tries failed ports again.
func (s *Server) Set(checks []processor.HealthCheck, addresses []netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.checks, s.addresses = checks, addresses
	s.set(checks, addresses)
}

// Retry tries to open the ports that could not be opened.
func (s *Server) Retry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused) > 0 {
		s.set(s.checks, s.addresses)
	}
}

func (s *Server) set(checks []processor.HealthCheck, addresses []netip.Addr) {
	wanted := map[uint16]processor.HealthCheck{}
	for _, c := range checks {
		if _, taken := wanted[c.Port]; !taken { // duplicates are invalid: the first wins
			wanted[c.Port] = c
		}
	}
	for number, p := range s.ports {
		if _, ok := wanted[number]; !ok || !slices.Equal(p.addresses, addresses) {
			p.server.Close()
			delete(s.ports, number)
		}
	}
	for number := range s.refused {
		if _, ok := wanted[number]; !ok {
			delete(s.refused, number)
		}
	}
	for number, check := range wanted {
		if p := s.ports[number]; p != nil {
			p.set(check)
			continue
		}
		if err := s.open(check, addresses); err != nil {
			if s.refused[number] != err.Error() {
				s.log.Warn("Serving the health check of a service failed", "service", check.ID.String(), "error", err)
			}
			s.refused[number] = err.Error()
			continue
		}
		delete(s.refused, number)
	}
}

func (s *Server) open(check processor.HealthCheck, addresses []netip.Addr) error {
	p := &port{addresses: addresses, check: check}
	hosts := []string{""}
	if len(addresses) > 0 {
		hosts = nil
		for _, a := range addresses {
			hosts = append(hosts, a.String())
		}
	}
	for _, host := range hosts {
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(int(check.Port))))
		if err != nil {
			for _, l := range p.listeners {
				err = errors.Join(err, l.Close())
			}
			return fmt.Errorf("health check of %s: %w", check.ID, err)
		}
		p.listeners = append(p.listeners, l)
	}
	p.server = &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { s.answer(w, p.get()) }),
		ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: 8192,
		ConnState: rest.LimitConnections(maxConnections),
		ErrorLog:  slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	for _, l := range p.listeners {
		s.conns.Go(func() { _ = p.server.Serve(l) })
	}
	s.ports[check.Port] = p
	return nil
}

func (p *port) set(check processor.HealthCheck) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.check = check
}

func (p *port) get() processor.HealthCheck {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.check
}

func (s *Server) answer(w http.ResponseWriter, check processor.HealthCheck) {
	var body struct {
		Service struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"service"`
		LocalEndpoints      int  `json:"localEndpoints"`
		ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
	}
	body.Service.Namespace, body.Service.Name = check.ID.Namespace, check.ID.Name
	body.LocalEndpoints, body.ServiceProxyHealthy = check.Endpoints, s.healthy()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(check.Endpoints))
	if body.LocalEndpoints == 0 || !body.ServiceProxyHealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "\t")
	_ = encoder.Encode(body) // the client may have disconnected
}

// Problems returns the errors of the failed ports.
func (s *Server) Problems() (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, text := range s.refused {
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// Close closes all ports.
func (s *Server) Close() {
	s.Set(nil, nil)
	s.conns.Wait()
}
