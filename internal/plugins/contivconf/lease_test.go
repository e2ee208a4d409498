package contivconf_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func TestLeaseChanges(t *testing.T) {
	loop := &plugintest.Loop{}
	c, err := contivconf.New("node1", load(t, `nodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: Gbe0, useDHCP: true}}]`), contivconf.Sources{}, loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	resync := func(count int) {
		t.Helper()
		if err := c.Resync(context.Background(), &controller.DBResync{}, state(kubeNode("node1")), count, plugintest.Txn{}); err != nil {
			t.Fatal(err)
		}
	}
	c.LeaseChanged(context.Background(), "Gbe0", netip.MustParsePrefix("192.168.1.5/24"))
	if events := loop.Take(); len(events) != 0 {
		t.Errorf("before the first resync: %v", events)
	}
	resync(1)
	for i, step := range []struct{ iface, lease, want string }{
		{"Gbe0", "192.168.1.5/24", ""},
		{"Gbe1", "192.168.1.8/24", ""},
		{"Gbe0", "", ""},
		{"Gbe0", "192.168.1.9/24", "now: address 192.168.1.9/24"},
	} {
		var lease netip.Prefix
		if step.lease != "" {
			lease = netip.MustParsePrefix(step.lease)
		}
		c.LeaseChanged(context.Background(), step.iface, lease)
		events := loop.Take()
		if step.want == "" && len(events) != 0 || step.want != "" && (len(events) != 1 || !strings.Contains(events[0].String(), step.want)) {
			t.Errorf("%v: %v", step, events)
		}
		if step.want != "" {
			resync(i + 2)
		}
	}
	if got := c.Resolved().LinkAddress.String(); got != "192.168.1.9/24" {
		t.Errorf("resolved %s", got)
	}
}
