package service_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/plugintest"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/test/await"
)

// Conntrack settings apply only while the vswitch translates services in the host's network stack.
func TestSettingsOfConnectionTracking(t *testing.T) {
	c := newCluster()
	c.others = "table kube-proxy"
	var applied atomic.Int32
	var refused atomic.Bool
	refused.Store(true)
	up := func(shared bool) *service.Service {
		proxy := c.proxy(config.Config{Services: config.VSwitch, LocalEndpointWeight: 1})
		proxy.Track = func() error {
			applied.Add(1)
			if refused.Load() {
				return errors.Join(errors.New("no max"), errors.New("no close-wait"))
			}
			return nil
		}
		s, err := service.New(service.Capabilities{HostStackShared: shared}, fake{ownStack: !shared, bvi: "vxlanBVI"}, fake{ownStack: !shared, bvi: "vxlanBVI"}, service.Roles{Proxy: proxy}, plugintest.Logger())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	noted := func(s *service.Service) bool {
		return slices.ContainsFunc(s.Notes(), func(note string) bool { return strings.Contains(note, "no max; no close-wait") })
	}
	s := up(true)
	resync(t, s, controller.KubeState{})
	if applied.Load() != 0 || noted(s) {
		t.Errorf("with kube-proxy: applied %d times, notes %q", applied.Load(), s.Notes())
	}
	c.mu.Lock()
	c.others = ""
	c.mu.Unlock()
	resync(t, s, controller.KubeState{})
	if applied.Load() != 1 || !noted(s) {
		t.Errorf("without kube-proxy: applied %d times, notes %q", applied.Load(), s.Notes())
	}
	refused.Store(false)
	go s.WatchOtherProxies(t.Context(), time.Millisecond, func() error { return nil })
	await.That(t, "the settings are applied once they can be", func() error {
		if noted(s) {
			return errors.New(strings.Join(s.Notes(), "; "))
		}
		return nil
	})
	applied.Store(0)
	own := up(false)
	resync(t, own, controller.KubeState{})
	if applied.Load() != 0 {
		t.Error("settings of the host are changed where the vswitch has a network stack of its own")
	}
}
