package pods

import (
	"testing"

	"github.com/contiv/contiv/internal/plugins/podmanager"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
)

// Messages about pod interfaces name the pods.
func TestPodNames(t *testing.T) {
	web := podmanager.PodID{Namespace: "shop", Name: "web"}
	p := Names{
		pods: func() podmanager.LocalPods { return podmanager.LocalPods{web: {ID: web}} },
		names: func(podmanager.PodID) (vpp, linux, loopback string, exists bool) {
			return "vpp-tap-0a1b", "linux-tap-0a1b", "linux-loop-0a1b", true
		},
	}
	for text, want := range map[string]string{
		"default route of linux-tap-0a1b was deleted; interface vpp-tap-0a1b was set down": "default route of the interface of pod shop/web was deleted; the vswitch's interface of pod shop/web was set down",
		"address 10.1.1.9/32 of linux-tap-ffff was deleted":                                "address 10.1.1.9/32 of linux-tap-ffff was deleted",
		"route 10.1.2.0/24 was deleted":                                                    "route 10.1.2.0/24 was deleted",
		`neighbour 10.1.1.2 of interface "vpp-tap-0a1b" was deleted`:                       "neighbour 10.1.1.2 of the vswitch's interface of pod shop/web was deleted",
		"device " + own.DeviceName(own.DevInterface, "vpp-tap-0a1b") + " went down":        "the vswitch's interface of pod shop/web went down",
	} {
		if got := p.InText(text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	owner := p.Owners()
	for key, want := range map[string]string{
		"config/linux/l3/v2/route/0.0.0.0/0/linux-tap-0a1b":     "the network of pod shop/web",
		"config/vpp/v2/interfaces/vpp-tap-0a1b":                 "the network of pod shop/web",
		"config/vpp/v2/interfaces/vpp-tap-ffff":                 "",
		"config/vpp/v2/route/if/vxlanBVI/vrf/0/dst/10.1.2.0/24": "",
	} {
		if got := owner(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
}
