package health

import (
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Node answers load balancers that ask whether a node translates services at all, for services with
// the external traffic policy Cluster. The answers have kube-proxy's format:
//
//	GET /healthz, /livez ──> 200, or 503
//	          {"lastUpdated": "…", "currentTime": "…", "nodeEligible": true}
type Node struct {
	address string
	healthy func() bool
	log     *slog.Logger

	mu      sync.Mutex
	server  *http.Server // nil: it does not listen
	refused string       // the reason
	since   time.Time    // when it was last healthy
	conns   sync.WaitGroup
}

// NewNode returns a server that does not listen yet, and never will if the address is empty.
func NewNode(address string, healthy func() bool, log *slog.Logger) *Node {
	return &Node{address: address, healthy: healthy, log: log}
}

// Serve starts to listen, if it does not yet, or stops. The next call, and Retry, try again if the
// address could not be opened.
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

// Retry listens if it was to, and could not.
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
			n.log.Warn("Load balancers are not told whether this node translates services: is the port of healthzBindAddress in use?", "error", err)
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
		ErrorLog: slog.NewLogLogger(n.log.Handler(), slog.LevelDebug),
	}
	n.server = server
	n.conns.Go(func() { _ = server.Serve(l) }) // it ends with Close
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
	_ = json.NewEncoder(w).Encode(body) // the client may have gone away
}

// Problem returns why it does not listen though it should, "" if it does.
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
