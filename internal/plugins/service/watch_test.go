package service_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestOthersAreNoticedWhenTheyComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster()
		s := c.plugin(t, "services: auto")
		ctx, cancel := context.WithCancel(t.Context())
		var requests atomic.Int32
		var refused atomic.Bool
		go s.WatchOtherProxies(ctx, time.Second, func() error {
			requests.Add(1)
			if refused.Load() {
				return errors.New("too many")
			}
			return nil
		})
		after := func(what string, others string, want int32) {
			t.Helper()
			synctest.Wait()
			c.mu.Lock()
			c.others = others
			c.mu.Unlock()
			requests.Store(0)
			time.Sleep(3*time.Second + time.Millisecond)
			synctest.Wait()
			if got := requests.Load(); got != want {
				t.Errorf("%s: %d resyncs are requested, want %d", what, got, want)
			}
		}
		after("before the first resync", "kube-proxy", 0)
		resync(t, s, state())
		after("nothing has changed", "kube-proxy", 0)
		after("kube-proxy went", "", 1)
		resync(t, s, state())
		refused.Store(true)
		after("kube-proxy came, and requests are refused", "kube-proxy", 3)
		refused.Store(false)
		after("requests are taken again", "kube-proxy", 1)
		resync(t, s, state())
		after("the resync has left services to it", "kube-proxy", 0)
		cancel()
	})
}
