package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// A command waits once for an agent that cannot be connected to, however often it asks.
func TestOneConnectionIsTried(t *testing.T) {
	var tried atomic.Int32
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("no route to host")}
	a := &Agent{Name: "n", URL: "http://n:9999", base: "http://n:9999", client: &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			tried.Add(1)
			return nil, refused
		},
	}}}
	ctx := WaitOnce(t.Context())
	first := a.Get(ctx, "/a", nil, nil)
	_, _, second := a.Fetch(ctx, "/b", nil)
	if first == nil || second == nil || first.Error() != second.Error() || tried.Load() != 1 {
		t.Errorf("%d connections: %v, then %v", tried.Load(), first, second)
	}
	if _ = a.Get(WaitOnce(t.Context()), "/a", nil, nil); tried.Load() != 2 {
		t.Error("another command does not try")
	}
}
