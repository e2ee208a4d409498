package rtnl

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func network(text string) *net.IPNet {
	_, n, _ := net.ParseCIDR(text)
	return n
}

// A plain route equals one made by the netlink package.
func TestPlainRoutes(t *testing.T) {
	c := newConn(t)
	if err := c.AddLink(NewLink{Name: "near", Kind: "veth", Options: []LinkOption{VethPeer("far", 0, nil)}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"lo", "near", "far"} {
		if err := c.SetLinkNamed(name, LinkChange{Up: true}); err != nil {
			t.Fatal(err)
		}
	}
	near, err := c.LinkIndex("near")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		route netlink.Route
		plain bool
	}{
		{"link", netlink.Route{LinkIndex: near, Dst: network("10.1.0.0/16"), Scope: netlink.SCOPE_LINK, Protocol: 77}, true},
		{"gateway", netlink.Route{LinkIndex: near, Dst: network("0.0.0.0/0"), Gw: net.ParseIP("10.9.9.9"), Flags: unix.RTNH_F_ONLINK, Priority: 7}, true},
		{"table", netlink.Route{LinkIndex: near, Dst: network("10.2.0.0/16"), Scope: netlink.SCOPE_LINK, Table: 17}, true},
		{"large table", netlink.Route{LinkIndex: near, Dst: network("10.2.0.0/16"), Scope: netlink.SCOPE_LINK, Table: 100017}, true},
		{"blackhole", netlink.Route{Dst: network("10.3.0.0/16"), Type: unix.RTN_BLACKHOLE}, true},
		{"IPv6", netlink.Route{LinkIndex: near, Dst: network("2001:db8::/32"), Gw: net.ParseIP("2001:db8:9::9"), Flags: unix.RTNH_F_ONLINK}, true},
		{"MTU", netlink.Route{LinkIndex: near, Dst: network("10.4.0.0/16"), Scope: netlink.SCOPE_LINK, MTU: 1400}, false},
		{"paths", netlink.Route{Dst: network("10.5.0.0/16"), MultiPath: []*netlink.NexthopInfo{
			{LinkIndex: near, Gw: net.ParseIP("10.9.9.8"), Flags: unix.RTNH_F_ONLINK}, {LinkIndex: near, Gw: net.ParseIP("10.9.9.9"), Flags: unix.RTNH_F_ONLINK},
		}}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if isPlain(tt.route) != tt.plain {
				t.Fatalf("isPlain returns %v", !tt.plain)
			}
			read := func() netlink.Route {
				list, err := c.Routes(netlink.FAMILY_ALL, &netlink.Route{Dst: tt.route.Dst, Table: tt.route.Table}, netlink.RT_FILTER_DST|netlink.RT_FILTER_TABLE)
				if err != nil || len(list) != 1 {
					t.Fatalf("read %v, %v", list, err)
				}
				return list[0]
			}
			if err := c.RouteAdd(&tt.route); err != nil {
				t.Fatal(err)
			}
			if err := c.RouteAdd(&tt.route); !Exists(err) {
				t.Errorf("added twice: %v", err)
			}
			ours := read()
			if err := c.RouteDel(&tt.route); err != nil {
				t.Fatal(err)
			}
			if err := c.tryHandle("", func(h *netlink.Handle) error { return h.RouteAdd(&tt.route) }); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(read(), ours); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRouteAddRefuses(t *testing.T) {
	c := newConn(t)
	for _, route := range []netlink.Route{
		{LinkIndex: Loopback},
		{LinkIndex: Loopback, Dst: network("10.0.0.0/8"), Gw: net.ParseIP("2001:db8::1")},
	} {
		if err := c.RouteAdd(&route); err == nil {
			t.Errorf("%v was added", route)
		}
	}
}

func TestNumbersOfNamespaces(t *testing.T) {
	c, other := newConn(t), newConn(t)
	fd := int(other.handle.ns)
	if nsid, err := c.GetNetNsIdByFd(fd); err != nil || nsid >= 0 {
		t.Errorf("before it was assigned: %d, %v", nsid, err)
	}
	assigned, err := c.AssignNetNsIdByFd(fd)
	if err != nil || assigned < 0 {
		t.Errorf("assigned %d, %v", assigned, err)
	}
	if again, err := c.AssignNetNsIdByFd(fd); err != nil || again != assigned {
		t.Errorf("assigned again: %d, %v", again, err)
	}
	if nsid, err := c.GetNetNsIdByFd(fd); err != nil || nsid != assigned {
		t.Errorf("read %d, %v", nsid, err)
	}
	if _, err := c.AssignNetNsIdByFd(-1); err == nil {
		t.Error("a closed file has been given a number")
	}
}
