package contivconf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/plugintest"
)

func stolenCard(pci string, addresses string, gateways ...string) *contivconf.Stolen {
	s := &contivconf.Stolen{Name: "eth0", PCI: pci, MTU: 1400}
	for _, text := range strings.Fields(addresses) {
		s.Addresses = append(s.Addresses, netip.MustParsePrefix(text))
	}
	for i, text := range gateways {
		hop := netip.MustParseAddr(text)
		to := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if hop.Is6() {
			to = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		s.Routes = append(s.Routes, contivconf.StolenRoute{Destination: to, NextHop: hop, Metric: uint32(10 - i)})
	}
	return s
}

func TestMainInterfaceIsTheStolenCard(t *testing.T) {
	for name, c := range map[string]struct {
		conf   string
		stolen *contivconf.Stolen
		asked  string
		want   string
	}{
		"global option":       {"stealInterface: eth0", stolenCard("", "192.168.16.1/24", "192.168.16.254"), "eth0 false", "eth0 [192.168.16.1/24] [192.168.16.254]"},
		"first card":          {"stealFirstNIC: true", stolenCard("", "192.168.16.1/24"), " false", "eth0 [192.168.16.1/24] []"},
		"option of the node":  {"stealInterface: eth9\nnodeConfig: [{nodeName: node1, stealInterface: eth0}]", stolenCard("", "192.168.16.1/24"), "eth0 false", "eth0 [192.168.16.1/24] []"},
		"option of another":   {"nodeConfig: [{nodeName: node2, stealInterface: eth0}]", stolenCard("", "192.168.16.1/24"), "", "nic1 [] []"},
		"lowest metric":       {"stealInterface: eth0", stolenCard("", "192.168.16.1/24", "192.168.16.253", "192.168.16.254"), "eth0 false", "eth0 [192.168.16.1/24] [192.168.16.254]"},
		"other IP version":    {"stealInterface: eth0", stolenCard("", "fd16::1/64 192.168.16.1/24"), "eth0 false", "eth0 [192.168.16.1/24] []"},
		"Kubernetes' first":   {"stealInterface: eth0", stolenCard("", "192.168.16.9/24 192.168.16.1/24"), "eth0 false", "eth0 [192.168.16.1/24 192.168.16.9/24] []"},
		"DHCP stays at home":  {"stealInterface: eth0\nipamConfig: {nodeInterconnectDHCP: true}", stolenCard("", "192.168.16.1/24"), "eth0 true", "eth0 [192.168.16.1/24] []"},
		"PCI device":          {"stealInterface: eth0", stolenCard("0000:00:08.0", "192.168.16.1/24", "192.168.16.254"), "eth0 false", "nic1 [192.168.16.1/24] [192.168.16.254]"},
		"PCI device, DHCP":    {"stealInterface: eth0\nipamConfig: {nodeInterconnectDHCP: true}", stolenCard("0000:00:08.0", "192.168.16.1/24"), "eth0 true", "nic1 [] []"},
		"another is named":    {"stealInterface: eth0\nnodeConfig: [{nodeName: node1, mainVPPInterface: {interfaceName: eth1}}]", stolenCard("", "192.168.16.1/24"), "eth0 false", "interfaceName is eth1, but the stolen network card is eth0: remove it"},
		"nobody can be asked": {"stealInterface: eth0", nil, "eth0 false", "steal the network card: contiv-stn is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			conf, err := contivconf.New("node1", load(t, c.conf), contivconf.Sources{
				NICs: func() ([]string, error) { return []string{"nic1"}, nil },
				STN: func(name string, dhcp bool) (*contivconf.Stolen, error) {
					if asked = fmt.Sprint(name, " ", dhcp); c.stolen == nil {
						return nil, errors.New("contiv-stn is gone")
					}
					return c.stolen, nil
				},
			}, nil, nil, plugintest.Logger())
			if err != nil {
				t.Fatal(err)
			}
			err = conf.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1", "192.168.16.1")), 1, plugintest.Txn{})
			r := conf.Resolved()
			got := fmt.Sprint(r.Main.Name, " ", r.Main.Addresses, " ", r.Gateways)
			if err != nil {
				got = err.Error()
			}
			if !strings.HasSuffix(got, c.want) || asked != c.asked || len(r.RouteGateways) > 0 {
				t.Errorf("asked for %q, resolved %s, gateways to make routes %v; want %q, %s", asked, got, r.RouteGateways, c.asked, c.want)
			}
			if err == nil && c.asked != "" && (r.LinkMTU != 1400 || r.Stolen == nil) {
				t.Errorf("resolved %+v", r)
			}
		})
	}
}

func TestStolenCardChanges(t *testing.T) {
	loop, stolen := &plugintest.Loop{}, stolenCard("", "192.168.16.1/24")
	c, err := contivconf.New("node1", load(t, "stealInterface: eth0"), contivconf.Sources{STN: func(string, bool) (*contivconf.Stolen, error) { return stolen, nil }}, loop, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Resync(t.Context(), &controller.DBResync{}, state(kubeNode("node1")), 1, plugintest.Txn{}); err != nil {
		t.Fatal(err)
	}
	c.LinksChanged(t.Context())
	if events := loop.Take(); len(events) != 0 {
		t.Errorf("without a change: %v", events)
	}
	stolen = stolenCard("", "192.168.16.7/24")
	c.LinksChanged(t.Context())
	if events := loop.Take(); len(events) != 1 {
		t.Errorf("after another lease: %v", events)
	}
}

func TestNothingToStealOnTheKernel(t *testing.T) {
	var out bytes.Buffer
	_, err := contivconf.New("node1", load(t, "stealInterface: eth0"), contivconf.Sources{Links: twoNICs}, nil, nil, slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil || strings.Count(out.String(), "have no effect") != 1 {
		t.Errorf("%v, log: %s", err, out.String())
	}
}

func TestSTNHolderChange(t *testing.T) {
	c, err := contivconf.New("node1", load(t, ""), contivconf.Sources{}, nil, nil, plugintest.Logger())
	if err != nil {
		t.Fatal(err)
	}
	event := &contivconf.STNHolderChange{Interface: "eth0", Host: true, Reason: "VPP is gone"}
	if !c.HandlesEvent(event) {
		t.Error("nobody handles it")
	}
	if got, err := c.Update(context.Background(), event, nil); err != nil || got != "network card eth0 is the host's: VPP is gone" {
		t.Errorf("described as %q, %v", got, err)
	}
}
