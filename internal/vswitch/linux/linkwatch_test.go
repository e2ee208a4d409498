package linux

import (
	"context"
	"testing"
	"time"
)

// WatchLinks reports each change and leaves no goroutine behind.
func TestChangesOfLinksAreTold(t *testing.T) {
	n := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- n.WatchLinks(ctx, func() {
			select {
			case told <- struct{}{}:
			default:
			}
		})
	}()
	expect := func(what string) {
		t.Helper()
		select {
		case <-told:
		case <-time.After(time.Minute):
			t.Fatalf("no notification of %s", what)
		}
	}
	expect("the start")
	for _, change := range [][]string{
		{"link", "add", "eth0", "type", "veth", "peer", "name", "wire"},
		{"address", "add", "192.0.2.1/24", "dev", "eth0"},
		{"address", "add", "2001:db8::1/64", "dev", "eth0"},
		{"link", "set", "eth0", "mtu", "1400"},
		{"address", "del", "192.0.2.1/24", "dev", "eth0"},
	} {
		n.ip(change...)
		expect(change[0] + " " + change[1])
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
