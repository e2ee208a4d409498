package rest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
)

// limited is a server on a socket and a TCP address; requests of /slow last until cancelled.
type limited struct {
	t      *testing.T
	server *Server
	began  chan struct{}
	stop   func()
}

func newLimited(t *testing.T, timeouts timeouts) *limited {
	t.Helper()
	server, err := Listen(listener.Options{AllowUnauthenticated: true}, nil, "unix://"+filepath.Join(t.TempDir(), "s"), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if timeouts.header > 0 {
		server.timeouts = timeouts
	}
	l := &limited{t: t, server: server, began: make(chan struct{}, 1)}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case strings.HasPrefix(r.URL.Path, "/large"):
				l.began <- struct{}{}
				_, err := io.Copy(w, io.LimitReader(endless{}, 1<<30))
				if err != nil {
					l.began <- struct{}{}
				}
			case r.URL.Query().Has("wait"):
				l.began <- struct{}{}
				<-r.Context().Done()
			}
		}))
	}()
	l.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(l.stop)
	return l
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

// get makes a request over the given listener. It returns the answer, or "" and a function that
// ends a lasting request.
func (l *limited) get(number int, method, path string) (answer string, end func()) {
	l.t.Helper()
	addr := l.server.Addrs()[number]
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, path)
	answered := make(chan string, 1)
	if path == "/large" {
		<-l.began
		return "", func() { conn.Close() }
	}
	go func() {
		all, _ := io.ReadAll(conn)
		answered <- string(all)
	}()
	select {
	case answer = <-answered:
	case <-l.began:
	}
	return answer, func() { conn.Close() }
}

// Lasting requests of one client do not lock out others or probes.
func TestRequestsThatDoNotEnd(t *testing.T) {
	for _, test := range []struct {
		method, path, want string
		most               int
	}{
		{"GET", "/values?wait", "has 32 requests in progress, the limit", 32},
		{"POST", "/values?wait", "has 32 requests that change something in progress, the limit", 32},
		{"GET", "/metrics?wait", "16 requests for metrics and health in progress, the limit for all clients", 16},
		{"GET", "/readiness?wait", "16 requests for metrics and health in progress, the limit for all clients", 16},
	} {
		t.Run(test.method+test.path, func(t *testing.T) {
			l := newLimited(t, timeouts{})
			var end func()
			for i := range test.most {
				var answer string
				if answer, end = l.get(1, test.method, test.path); answer != "" {
					t.Fatalf("request %d: %s", i, answer)
				}
			}
			if answer, _ := l.get(1, test.method, test.path); !strings.HasPrefix(answer, "HTTP/1.1 429 ") || !strings.Contains(answer, test.want) || !strings.Contains(answer, "Retry-After") {
				t.Errorf("one too many: %s", answer)
			}
			if answer, _ := l.get(0, test.method, test.path); answer != "" {
				t.Errorf("at the socket: %s", answer)
			}
			if answer, _ := l.get(1, "GET", "/readiness"); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
				t.Errorf("probe: %s", answer)
			}
			end()
			for started := time.Now(); ; {
				answer, _ := l.get(1, test.method, test.path)
				if answer == "" {
					break
				}
				if time.Since(started) > 30*time.Second {
					t.Fatalf("a request that ended is counted: %s", answer)
				}
			}
		})
	}
}

// A client that does not read a long answer loses its connection.
func TestUnreadAnswers(t *testing.T) {
	l := newLimited(t, timeouts{time.Minute, time.Minute, 100 * time.Millisecond, time.Minute})
	l.get(1, "GET", "/large")
	select {
	case <-l.began: // the writer failed
	case <-time.After(time.Minute):
		t.Fatal("the answer waits for its reader")
	}
}

// A client with many connections does not lock out others.
func TestConnectionsTooMany(t *testing.T) {
	c := &connections{most: 3}
	var held []net.Conn
	open := func() net.Conn {
		near, far := net.Pipe()
		t.Cleanup(func() { near.Close(); far.Close() })
		held = append(held, far)
		c.changed(near, http.StateNew)
		return near
	}
	closed := func(i int) {
		t.Helper()
		held[i].SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := held[i].Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d: %v, want that it is closed", i, err)
		}
	}
	first, second, third := open(), open(), open()
	c.changed(first, http.StateActive)
	open() // replaces the second, the oldest idle one
	closed(1)
	c.changed(second, http.StateClosed)
	c.changed(third, http.StateActive)
	c.changed(third, http.StateIdle)
	open()
	closed(2)
	for _, conn := range c.open {
		conn.busy = true
	}
	open()
	closed(0)
	if len(c.open) != 3 {
		t.Errorf("%d connections, want 3", len(c.open))
	}
	c.changed(c.open[0].Conn, http.StateClosed)
	c.changed(c.open[0].Conn, http.StateClosed)
	c.changed(c.open[0].Conn, http.StateClosed)
	if len(c.open) != 0 {
		t.Error("closed connections are counted")
	}
}

func TestServerBoundsConnections(t *testing.T) {
	l := newLimited(t, timeouts{})
	addr := l.server.Addrs()[1]
	first, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	for range maxConnections {
		conn, err := net.Dial(addr.Network(), addr.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	first.SetDeadline(time.Now().Add(8 * time.Second)) // less than the idle timeout
	if _, err := first.Read(make([]byte, 1)); err != io.EOF && !strings.Contains(fmt.Sprint(err), "reset") {
		t.Errorf("%v, want that the oldest connection is closed", err)
	}
	if answer, _ := l.get(1, "GET", "/readiness"); !strings.HasPrefix(answer, "HTTP/1.1 200 ") {
		t.Errorf("probe: %s", answer)
	}
}
