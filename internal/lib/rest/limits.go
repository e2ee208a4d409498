package rest

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/lib/listener/quota"
)

// probes are never limited: kubelet restarts the program if they fail. They are cheap.
var probes = []string{"/liveness", "/readiness"}

// limits bound concurrent requests. TCP and socket clients have separate limits, so that clients on
// the network cannot lock out local ones.
type limits struct{ public, reads, changes quota.Quota }

func newLimits() *limits {
	return &limits{
		public:  quota.Quota{What: "requests for metrics and health", All: 16},
		reads:   quota.Quota{What: "requests", Each: 32, All: 128},
		changes: quota.Quota{What: "requests that change something", Each: 32, All: 128},
	}
}

// of returns the limit of a request, or nil.
func (l *limits) of(r *http.Request, changes bool) *quota.Quota {
	switch {
	case changes:
		return &l.changes
	case slices.Contains(probes, r.URL.Path) && r.URL.RawQuery == "":
		return nil
	case slices.Contains(public, r.URL.Path):
		return &l.public
	}
	return &l.reads
}

// begin counts a request until end is called. If too many are in progress, it answers with 429 and
// returns nil.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, client string, changes bool) (end func()) {
	l := s.tcp
	if local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr); local != nil && local.Network() == "unix" {
		l = s.socket
	}
	q := l.of(r, changes)
	if q == nil {
		return func() {}
	}
	release, err := q.Take(client)
	if errors.Is(err, quota.ErrExceeded) {
		w.Header().Set("Retry-After", "1")
		Error(w, http.StatusTooManyRequests, err)
		return nil
	}
	return release
}

// patient extends the write deadline before each write: an answer may take as long as it needs, but
// a client that does not read loses its connection.
type patient struct {
	http.ResponseWriter
	timeout time.Duration
}

func (p patient) Write(data []byte) (int, error) {
	p.extend()
	return p.ResponseWriter.Write(data)
}

func (p patient) extend() {
	http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(p.timeout)) // the server's writers support it
}

// Unwrap supports http.ResponseController.
func (p patient) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// connections holds the open connections of a listener, oldest first. Above the limit it closes the
// oldest idle one, otherwise the oldest, so that one client cannot lock out others.
type connections struct {
	most int

	mu   sync.Mutex
	open []*connection
}

type connection struct {
	net.Conn
	busy bool
}

// LimitConnections returns a function for http.Server.ConnState that closes connections so that at
// most the given number is open: the oldest idle one, otherwise the oldest.
func LimitConnections(most int) func(net.Conn, http.ConnState) {
	return (&connections{most: most}).changed
}

// changed implements http.Server.ConnState.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.open, func(o *connection) bool { return o.Conn == conn })
	switch {
	case state == http.StateNew:
		if len(c.open) >= c.most {
			c.makeRoom()
		}
		c.open = append(c.open, &connection{Conn: conn})
	case i < 0: // closed to make room
	case state == http.StateClosed || state == http.StateHijacked:
		c.open = slices.Delete(c.open, i, i+1)
	default:
		c.open[i].busy = state == http.StateActive
	}
}

func (c *connections) makeRoom() {
	i := max(slices.IndexFunc(c.open, func(o *connection) bool { return !o.busy }), 0)
	go c.open[i].Close() // closing a TLS connection may block
	c.open = slices.Delete(c.open, i, i+1)
}
