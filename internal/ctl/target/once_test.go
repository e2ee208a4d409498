package target

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

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

// A hanging agent leaves half of the time for further questions to the others.
func TestSearchLeavesTime(t *testing.T) {
	var asked atomic.Int32
	hangs := &Agent{Name: "n", URL: "http://n:9999", base: "http://n:9999", client: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			asked.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		},
	}}}
	ctx, cancel := context.WithTimeout(WaitOnce(t.Context()), 4*time.Second)
	defer cancel()
	search, end := Search(ctx)
	defer end()
	first := hangs.Get(search, "/a", nil, nil)
	if first == nil || ctx.Err() != nil {
		t.Fatalf("the search took all of the time: %v", first)
	}
	if second := hangs.Get(ctx, "/b", nil, nil); second == nil || second.Error() != first.Error() || asked.Load() != 1 {
		t.Errorf("asked %d times: %v, then %v", asked.Load(), first, second)
	}
}
