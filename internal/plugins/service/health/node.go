package health

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/rest"
)

// Node answers health checks of the node's service translation, for services with the external
// traffic policy Cluster. The responses have kube-proxy's format:
//
//	GET /healthz, /livez ──> 200, or 503
//	          {"lastUpdated": "…", "currentTime": "…", "nodeEligible": true}
type Node struct {
	address string
	healthy func() bool
	log     *slog.Logger

	mu      sync.Mutex
	server  *http.Server // nil if not listening
	refused string       // error of listening
	since   time.Time    // last time healthy
	conns   sync.WaitGroup
}

// NewNode returns a server that does not listen yet. With an empty address, it never does.
func NewNode(address string, healthy func() bool, log *slog.Logger) *Node {
	return &Node{address: address, healthy: healthy, log: log}
}

// Serve starts or stops listening. The next Serve or Retry tries again after an error.
func (n *Node) Serve(on bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !on:
		if n.server != nil {
			n.server.Close()
		}
		n.server, n.refused = nil, ""
	case n.server == nil && n.address != "":
		n.listen()
	}
}

// Retry tries to listen again after an error.
func (n *Node) Retry() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refused != "" {
		n.listen()
	}
}

func (n *Node) listen() {
	l, err := net.Listen("tcp", n.address)
	if err != nil {
		if n.refused == "" {
			n.log.Warn("Serving healthzBindAddress failed", "error", err)
		}
		n.refused = "healthzBindAddress: " + err.Error()
		return
	}
	n.refused = ""
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", n.answer)
	mux.HandleFunc("GET /livez", n.answer)
	server := &http.Server{
		Handler: mux, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: 8192,
		ConnState: rest.LimitConnections(maxConnections),
		ErrorLog:  slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	n.server = server
	n.conns.Go(func() { _ = server.Serve(l) })
}

func (n *Node) answer(w http.ResponseWriter, _ *http.Request) {
	now, healthy := time.Now(), n.healthy()
	n.mu.Lock()
	if healthy {
		n.since = now
	}
	body := struct {
		LastUpdated  time.Time `json:"lastUpdated"`
		CurrentTime  time.Time `json:"currentTime"`
		NodeEligible bool      `json:"nodeEligible"`
	}{n.since, now, true}
	n.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// Problem returns the error of listening, or "".
func (n *Node) Problem() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.refused
}

// Close stops the server.
func (n *Node) Close() {
	n.Serve(false)
	n.conns.Wait()
}
