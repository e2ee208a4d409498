package target

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/contiv/contiv/test/await"
)

func TestKeepConnections(t *testing.T) {
	var made, open atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("{}")) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			made.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	server.Start()
	defer server.Close()
	a, err := New("node1", server.URL)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(a *Agent, times int) (connections int32) {
		t.Helper()
		before := made.Load()
		for range times {
			_, body, err := a.Fetch(t.Context(), "/x", nil)
			if err == nil {
				_, err = io.Copy(io.Discard, body)
				body.Close()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		return made.Load() - before
	}
	closed := func() {
		t.Helper()
		await.That(t, "all connections are closed", func() error {
			if open.Load() > 0 {
				return fmt.Errorf("%d are open", open.Load())
			}
			return nil
		})
	}
	kept, release := a.KeepConnections()
	if n := ask(kept, 3); n != 1 {
		t.Errorf("%d connections for 3 requests, want 1", n)
	}
	if n := ask(a, 3); n != 3 {
		t.Errorf("meanwhile, %d connections for 3 requests of another caller, want 3", n)
	}
	release()
	closed()
	if n := ask(a, 2); n != 2 {
		t.Errorf("after that, %d connections for 2 requests, want 2", n)
	}
	closed()
}
