package rtnl

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// LinkAttrs agrees with complete decoding.
func TestLinkAttrs(t *testing.T) {
	header := nl.NewIfInfomsg(unix.AF_UNSPEC)
	header.Index = 17
	data := header.Serialize()
	for _, attr := range []*nl.RtAttr{
		nl.NewRtAttr(unix.IFLA_IFNAME, nl.ZeroTerminated("cv-5f21")),
		nl.NewRtAttr(unix.IFLA_MTU, nl.Uint32Attr(1450)),
		nl.NewRtAttr(unix.IFLA_IFALIAS, nl.ZeroTerminated("contiv:vpp-if:tap1")),
		nl.NewRtAttr(unix.IFLA_GROUP, nl.Uint32Attr(4242)),
	} {
		data = append(data, attr.Serialize()...)
		data = append(data, make([]byte, -len(data)&3)...)
	}
	all, err := netlink.LinkDeserialize(nil, data)
	if err != nil {
		t.Fatal(err)
	}
	want := netlink.LinkAttrs{Index: all.Attrs().Index, Name: all.Attrs().Name, Alias: all.Attrs().Alias, Group: all.Attrs().Group}
	message := syscall.NetlinkMessage{Data: data}
	got, ok := LinkAttrs(message)
	if diff := cmp.Diff(want, got); diff != "" || !ok || got.Index != 17 || got.Group != 4242 {
		t.Errorf("LinkAttrs: %t, -want +got:\n%s", ok, diff)
	}
	if alias := LinkAlias(message); alias != "contiv:vpp-if:tap1" {
		t.Errorf("LinkAlias: %q", alias)
	}
	if _, ok := LinkAttrs(syscall.NetlinkMessage{Data: data[:8]}); ok {
		t.Error("half a header is an event about a device")
	}
}
