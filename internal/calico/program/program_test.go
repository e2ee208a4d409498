package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/client/clienttest"
	"github.com/contiv/contiv/internal/calico/routes"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

var (
	quiet  = slog.New(slog.DiscardHandler)
	uplink = Uplink{
		Interface: "eth1", Type: vpp_interfaces.Interface_DPDK, Configure: true,
		Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.1.1/24")},
	}
)

// table parses lines "destination" (dropped) or "destination via".
func table(lines ...string) routes.Table {
	t := make(routes.Table)
	for _, line := range lines {
		dst, via, _ := strings.Cut(line, " ")
		r := routes.Route{Host: "w"}
		if via != "" {
			r.Via = netip.MustParseAddr(via)
		}
		t[netip.MustParsePrefix(dst)] = r
	}
	return t
}

type recorder struct {
	calls []string
	fail  error
}

func keys(values []proto.Message) string {
	var list []string
	for _, v := range values {
		list = append(list, strings.TrimPrefix(models.Key(v), "config/vpp/v2/"))
	}
	return strings.Join(list, " ")
}

func (r *recorder) Resync(_ context.Context, values []proto.Message) error {
	r.calls = append(r.calls, "resync "+keys(values))
	return r.fail
}

func (r *recorder) Change(_ context.Context, put []proto.Message, remove []string) error {
	r.calls = append(r.calls, fmt.Sprintf("put %s, remove %s", keys(put), strings.ReplaceAll(strings.Join(remove, " "), "config/vpp/v2/", "")))
	return r.fail
}

func TestOnlyDifferences(t *testing.T) {
	r := &recorder{}
	p := New(r, uplink, quiet)
	failed := errors.New("away")
	for i, step := range []struct {
		table routes.Table
		fail  error
		want  string
	}{
		{table("10.0.0.0/26", "10.0.1.0/26 192.168.1.2"), failed, "resync interfaces/eth1 route/vrf/0/dst/10.0.0.0/26 route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.2"},
		{table("10.0.1.0/26 192.168.1.2"), nil, "resync interfaces/eth1 route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.2"},
		{table("10.0.1.0/26 192.168.1.2"), nil, ""},
		{table("10.0.1.0/26 192.168.1.3", "10.0.2.0/26 192.168.2.9"), nil,
			"put route/vrf/0/dst/10.0.2.0/26/gw/192.168.2.9 route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.3, remove route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.2"},
		{table("10.0.1.0/26 192.168.1.3"), failed, "put , remove route/vrf/0/dst/10.0.2.0/26/gw/192.168.2.9"},
		{table("10.0.1.0/26 192.168.1.3"), nil, "resync interfaces/eth1 route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.3"},
	} {
		r.calls, r.fail = nil, step.fail
		err := p.Apply(t.Context(), step.table)
		if got := strings.Join(r.calls, "; "); got != step.want || !errors.Is(err, step.fail) {
			t.Errorf("step %d: got %q, %v, want %q", i, got, err, step.want)
		}
	}
}

// A running agent gets the routes as a client's values, and loses the ones of earlier runs.
func TestThroughAgent(t *testing.T) {
	running, err := clienttest.Start(clienttest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	dial := func(name string) *client.Client {
		c, err := client.DialGRPC(running.Address, client.GRPC{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	want := func(c *client.Client, want ...string) {
		t.Helper()
		values, err := c.Get(t.Context())
		var got []string
		for _, v := range values {
			got = append(got, strings.TrimPrefix(v.Key, "config/vpp/v2/"))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the agent has %q, %v, want %q", got, err, want)
		}
	}
	other, ours := dial("other"), dial("calico-routes")
	if _, err := other.Txn().Put(&vpp_interfaces.Interface{Name: "tap1", Type: vpp_interfaces.Interface_TAP}).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := New(Agent{Client: ours, Log: quiet}, uplink, quiet)
	for _, table := range []routes.Table{table("10.0.1.0/26 192.168.1.2"), table("10.0.0.0/26", "10.0.1.0/26 192.168.1.3")} {
		if err := first.Apply(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	want(ours, "interfaces/eth1", "route/if/eth1/vrf/0/dst/10.0.1.0/26/gw/192.168.1.3", "route/vrf/0/dst/10.0.0.0/26")
	if err := New(Agent{Client: ours, Log: quiet}, uplink, quiet).Apply(t.Context(), table("10.0.2.0/26 192.168.1.3")); err != nil {
		t.Fatal(err)
	}
	want(ours, "interfaces/eth1", "route/if/eth1/vrf/0/dst/10.0.2.0/26/gw/192.168.1.3")
	want(other, "interfaces/tap1")
	running.Close()
	if err := first.Apply(t.Context(), table("10.0.3.0/26 192.168.1.3")); err == nil {
		t.Error("no error from an agent that is away")
	}
}
