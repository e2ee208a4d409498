package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/spf13/pflag"
)

func parse(arguments ...string) (*options, error) {
	var o options
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.register(f)
	if err := f.Parse(append([]string{"--hostname=w1"}, arguments...)); err != nil {
		return nil, err
	}
	err := o.complete(f, f.Args())
	return &o, err
}

// The documented command line and the options it sets.
func TestArguments(t *testing.T) {
	documented := []string{"calico/ipam/v2/assignment/ipv4/block", "1", "192.168.1.10", "24"}
	for name, c := range map[string]struct {
		arguments []string
		want      string
	}{
		"as documented":      {documented, "/calico/ipam/v2/assignment/ipv4/block/ 1 [192.168.1.10/24] [http://localhost:4000] : false"},
		"with host and port": {append(documented, "http", "10.0.0.1", "2379"), "/calico/ipam/v2/assignment/ipv4/block/ 1 [192.168.1.10/24] [http://10.0.0.1:2379] : false"},
		"protocol only":      {append(documented, "https"), "/calico/ipam/v2/assignment/ipv4/block/ 1 [192.168.1.10/24] [https://localhost:4000] : true"},
		"all nine":           {append(documented, "https", "::1", "2379", "me", "secret"), "/calico/ipam/v2/assignment/ipv4/block/ 1 [192.168.1.10/24] [https://[::1]:2379] me:secret true"},
		"a flag over arguments": {append(documented, "--uplink", "eth1", "--address", "10.0.0.1/8,2001:db8::1/64"),
			"/calico/ipam/v2/assignment/ipv4/block/ eth1 [10.0.0.1/8 2001:db8::1/64] [http://localhost:4000] : false"},
		"flags only": {[]string{"--uplink", "eth1", "--address", "10.0.0.1/8", "--etcd-endpoints", "http://a:1,http://b:2"},
			"/calico/ipam/v2/assignment/ eth1 [10.0.0.1/8] [http://a:1 http://b:2] : false"},
	} {
		o, err := parse(c.arguments...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e, err := o.loadEtcdConfig()
		got := fmt.Sprintf("%s %s %v %v %s:%s %v", o.tree.Blocks(), o.uplink, o.addresses, e.Endpoints, e.Username, e.Password, !e.InsecureTransport)
		if got != c.want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, c.want)
		}
	}
}

func TestFileAndEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "calico.yaml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("uplink: eth9\naddress: [10.0.0.1/8, 2001:db8::1/64]\nttl: 60s\netcd-user: of-file\n")
	t.Setenv("CONTIV_CALICO_ROUTES_ETCD_USER", "of-environment")
	o, err := parse("--config", file, "--ttl", "7s")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s %v %s %s", o.uplink, o.addresses, o.ttl, o.etcdUser); got != "eth9 [10.0.0.1/8 2001:db8::1/64] 7s of-environment" {
		t.Errorf("got %s", got)
	}
	write("uplnk: eth9\n")
	if _, err := parse("--config", file); err == nil || !strings.Contains(err.Error(), "unknown flag uplnk") {
		t.Errorf("got %v", err)
	}
}

// Each error names the remedy.
func TestMistakes(t *testing.T) {
	for arguments, want := range map[string]string{
		"":                                             "no uplink: set --uplink",
		"calico/x 1 10.0.0.1 8":                        "no tree of Calico's blocks",
		"calico/ipam/v2/assignment 1":                  "use TREE, UPLINK, ADDRESS and LENGTH",
		"calico/ipam/v2/assignment 1 10.0.0.1 x":       `prefix length "x" is not a number`,
		"calico/ipam/v2/assignment 1 10.0.0 8":         `--address "10.0.0/8" is not like`,
		"calico/ipam/v2/assignment 1 127.0.0.1 8":      "cannot lead to a host",
		"--uplink e --address 10.0.0.1/8,10.0.0.2/8":   "one of each",
		"--vswitch vpp --uplink 1":                     "no address is set, and the addresses of --uplink 1 cannot be read from VPP",
		"--uplink none":                                "no address is set, and the addresses of --uplink none cannot be read",
		"--uplink lo":                                  "no address is set, and --uplink lo has none",
		"--uplink e --address 10.0.0.1/8 --ttl 1s":     "whole seconds",
		"--uplink e --address 10.0.0.1/8 --vswitch x":  "use kernel or vpp",
		"--uplink e --address 10.0.0.1/8 --hostname=/": "use the name of this node in Calico",
		"--centre --once":                              "--centre excludes",
	} {
		if _, err := parse(strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", arguments, err, want)
		}
	}
	o, err := parse("--uplink", "99999", "--address", "10.0.0.1/8")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.uplinkName(t.Context(), slog.Default()); err == nil || !strings.Contains(err.Error(), "no interface has this index") {
		t.Errorf("got %v", err)
	}
	o.agent = "unix:///agent.sock"
	if _, err := o.uplinkName(t.Context(), slog.Default()); err == nil || !strings.Contains(err.Error(), "use the name of the interface at the agent") {
		t.Errorf("got %v", err)
	}
}

// The documented index of the uplink is the host's, or VPP's with --vswitch vpp.
func TestUplinkByIndex(t *testing.T) {
	server := vpptest.New(t)
	server.AddNIC("GigabitEthernet0/8/0")
	documented := []string{"calico/ipam/v2/assignment/ipv4/block", "1", "192.168.1.10", "24"}
	onVPP := slices.Clip(append(documented, "--vswitch", "vpp", "--vpp-socket", server.Socket()))
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{documented, "lo"},
		{onVPP, "GigabitEthernet0/8/0"},
		{append(onVPP, "--uplink-type", "AF_PACKET"), "lo"},
		{append(onVPP, "--uplink", "7"), "--uplink 7: no network card of VPP has the index 7; its DPDK network cards: 1 (GigabitEthernet0/8/0)"},
		{append(onVPP, "--uplink", "GigabitEthernet0/8/0"), "GigabitEthernet0/8/0"},
	} {
		o, err := parse(c.arguments...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := o.uplinkName(t.Context(), slog.New(slog.DiscardHandler))
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%q: uplink %s, want %s", c.arguments, got, c.want)
		}
	}
}
