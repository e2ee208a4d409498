package rtnl

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// newConn returns a connection to a new namespace.
func newConn(tb testing.TB) *Conn {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("needs root: network namespaces")
	}
	made := make(chan netns.NsHandle, 1)
	go func() {
		runtime.LockOSThread() // and stays locked: the thread ends with the goroutine
		ns, _ := netns.New()
		made <- ns
	}()
	ns := <-made
	if !ns.IsOpen() {
		tb.Fatal("cannot make a network namespace")
	}
	tb.Cleanup(func() { ns.Close() })
	c, err := New(ns)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

func up(c *Conn, index int) *nl.NetlinkRequest {
	req := c.Request(unix.RTM_SETLINK, 0)
	msg := nl.NewIfInfomsg(unix.AF_UNSPEC)
	msg.Index, msg.Change, msg.Flags = int32(index), unix.IFF_UP, unix.IFF_UP
	req.AddData(msg)
	return req
}

// Requests sent together are executed in order, each with its own result, even after errors.
func TestRequestsSentTogether(t *testing.T) {
	const devices = 8
	c := newConn(t)
	var reqs []*nl.NetlinkRequest
	for i := range 3 * devices {
		if i%3 == 1 {
			reqs = append(reqs, up(c, 4711))
			continue
		}
		req := c.Request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL)
		NewLink{Name: fmt.Sprintf("br%d", i/3), Kind: "bridge"}.Write(req)
		reqs = append(reqs, req)
	}
	for _, req := range reqs {
		req.Flags |= unix.NLM_F_ACK
	}
	for i, err := range c.socket.exchange(reqs, func(int, uint16, []byte) {}) {
		if want := []error{nil, unix.ENODEV, unix.EEXIST}[i%3]; !errors.Is(err, want) || want == nil && err != nil {
			t.Errorf("request %d: %v, want %v", i, err, want)
		}
	}
	links, err := c.LinkList()
	if err != nil || len(links) != 1+devices {
		t.Errorf("%d devices, %v", len(links), err)
	}
}

func TestDevicesAreFound(t *testing.T) {
	c := newConn(t)
	if err := c.AddLink(NewLink{Name: "br0", Kind: "bridge"}); err != nil {
		t.Fatal(err)
	}
	if err := c.SetLinkNamed("br0", LinkChange{Alias: "its alias"}); err != nil {
		t.Fatal(err)
	}
	byName, err := c.LinkByName("br0")
	if err != nil || byName.Attrs().Alias != "its alias" {
		t.Fatalf("%+v, %v", byName, err)
	}
	index := byName.Attrs().Index
	byIndex, err := c.LinkByIndex(index)
	if err != nil || byIndex.Attrs().Name != "br0" {
		t.Errorf("%+v, %v", byIndex, err)
	}
	byAlias, err := c.LinkByAlias("its alias")
	if err != nil || byAlias.Attrs().Index != index {
		t.Errorf("%+v, %v", byAlias, err)
	}
	for _, read := range []func() (netlink.Link, error){
		func() (netlink.Link, error) { return c.LinkByName("br1") },
		func() (netlink.Link, error) { return c.LinkByName("a-name-that-no-device-can-have") },
		func() (netlink.Link, error) { return c.LinkByIndex(4711) },
		func() (netlink.Link, error) { return c.LinkByAlias("none") },
	} {
		if link, err := read(); !IsGone(err) {
			t.Errorf("%v, %v", link, err)
		}
	}
}

// Late answers are not mistaken for answers to the next request.
func TestLateAnswersAreLeftOut(t *testing.T) {
	c := newConn(t)
	late := c.Request(unix.RTM_GETLINK, unix.NLM_F_ACK)
	late.AddData(&nl.IfInfomsg{IfInfomsg: unix.IfInfomsg{Index: 1}})
	late.Seq = c.socket.seq
	if err := unix.Sendto(c.socket.fd, late.Serialize(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		t.Fatal(err)
	}
	if addrs, err := c.Addresses(1); err != nil || len(addrs) != 0 {
		t.Errorf("%v, %v", addrs, err)
	}
	if link, err := c.LinkByName("lo"); err != nil || link.Attrs().Index != 1 {
		t.Errorf("%v, %v", link, err)
	}
}

func TestConnIsUsedConcurrently(t *testing.T) {
	c := newConn(t)
	var wg sync.WaitGroup
	for i := range 8 {
		prefix := netip.PrefixFrom(netip.AddrFrom4([4]byte{127, 1, 0, byte(i)}), 32)
		wg.Go(func() {
			for range 50 {
				if err := c.AddAddress(Address{Index: 1, Prefix: prefix}); err != nil {
					t.Error(err)
				}
				if link, err := c.LinkByIndex(1); err != nil || link.Attrs().Name != "lo" {
					t.Error(link, err)
				}
				if err := c.DelAddress(Address{Index: 1, Prefix: prefix}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkLinkByName measures the allocations of a request.
func BenchmarkLinkByName(b *testing.B) {
	c := newConn(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.LinkByName("lo"); err != nil {
			b.Fatal(err)
		}
	}
}

// The kernel makes no queues of a pair that it would have to remove again, blocking other changes.
func TestPairWithOneQueue(t *testing.T) {
	c := newConn(t)
	if err := c.AddLink(NewLink{Name: "near", Kind: "veth", OneQueue: true, Options: []LinkOption{VethPeer("far", 0, nil)}}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"near", "far"} {
		link, err := c.LinkByName(name)
		if err != nil {
			t.Fatal(err)
		}
		if a := link.Attrs(); a.NumTxQueues != 1 || a.NumRxQueues != 1 {
			t.Errorf("%s has %d queues to send and %d to receive", name, a.NumTxQueues, a.NumRxQueues)
		}
	}
}

// SetAndRead returns the device after the change.
func TestDeviceIsReadAfterTheChange(t *testing.T) {
	c := newConn(t)
	if err := c.AddLink(NewLink{Name: "near", Kind: "veth", OneQueue: true, Options: []LinkOption{VethPeer("far", 0, nil)}}); err != nil {
		t.Fatal(err)
	}
	link, err := c.SetAndRead("near", LinkChange{Alias: "its alias", Up: true})
	if err != nil || link.Attrs().Alias != "its alias" || link.Attrs().RawFlags&unix.IFF_UP == 0 {
		t.Errorf("%+v, %v", link, err)
	}
	if _, err := c.SetAndRead("none", LinkChange{Up: true}); !IsGone(err) {
		t.Errorf("of a device that does not exist: %v", err)
	}
}
