package cnibench

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/test/lab"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
)

// BenchmarkBareNetlink measures the kernel's time for the network of 32 pods at once, without
// programs, IPAM, planning or records. It is a lower bound for any CNI plugin. In one variant the
// far ends of veth pairs are created in the pod, as the agent does it; in the other they are moved
// there from pre-created pairs.
func BenchmarkBareNetlink(b *testing.B) {
	parallel := parallelADDs()
	s := newSite(b)
	bridge := s.references[0]
	made, moved := &side{name: "made"}, &side{name: "moved"}
	took := map[*side]times{}
	number := 0
	for b.Loop() {
		for _, side := range []*side{made, moved, bridge} {
			node := fmt.Sprintf("%s-bare%d", s.lab.Name(), number)
			s.addNetns(b, node)
			var pods []*pod
			for range parallel {
				pods = append(pods, s.newPod(b, side, number))
				number++
			}
			if side == moved {
				if err := makePairs(lab.NetnsPath(node), parallel); err != nil {
					b.Fatal(err)
				}
			}
			began := time.Now()
			var group errgroup.Group
			for i, p := range pods {
				group.Go(func() error {
					if side == bridge {
						_, err := p.add(b.Context())
						return err
					}
					return wire(lab.NetnsPath(node), p.conf.NetNS, i, side == moved)
				})
			}
			if err := group.Wait(); err != nil {
				b.Fatal(err)
			}
			took[side] = append(took[side], time.Since(began))
			for _, p := range pods {
				if side == bridge {
					if _, err := p.remove(b.Context()); err != nil {
						b.Fatal(err)
					}
				} else if err := exec.Command("ip", "netns", "del", filepath.Base(p.conf.NetNS)).Run(); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(took[made].p(50), "32-made-ms")
	b.ReportMetric(took[moved].p(50), "32-moved-ms")
	b.ReportMetric(took[bridge].p(50), "32-bridge-ms")
	b.ReportMetric(took[made].p(50)/took[bridge].p(50), "made/bridge")
	b.ReportMetric(took[moved].p(50)/took[bridge].p(50), "moved/bridge")
}

// open connects to a network namespace. The caller must close both results.
func open(path string) (*os.File, *rtnl.Conn, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	conn, err := rtnl.New(netns.NsHandle(file.Fd()))
	if err != nil {
		file.Close()
	}
	return file, conn, err
}

func nearName(i int) string { return fmt.Sprintf("near%d", i) }
func farName(i int) string  { return fmt.Sprintf("far%d", i) }

func addPair(conn *rtnl.Conn, i int, far rtnl.LinkOption) error {
	return conn.AddLink(rtnl.NewLink{Kind: "veth", Name: nearName(i), OneQueue: true, Options: []rtnl.LinkOption{far}})
}

// makePairs pre-creates veth pairs in the namespace of the node.
func makePairs(node string, n int) error {
	file, conn, err := open(node)
	if err != nil {
		return err
	}
	defer file.Close()
	defer conn.Close()
	for i := range n {
		if err := addPair(conn, i, rtnl.VethPeer(farName(i), 0, nil)); err != nil {
			return err
		}
	}
	return nil
}

// wire configures the network of a pod like the agent, on a new or a pre-created veth pair.
func wire(nodePath, podPath string, i int, waiting bool) error {
	nodeFile, node, err := open(nodePath)
	if err != nil {
		return err
	}
	defer nodeFile.Close()
	defer node.Close()
	podFile, pod, err := open(podPath)
	if err != nil {
		return err
	}
	defer podFile.Close()
	defer pod.Close()
	if waiting {
		var far int
		if far, err = node.LinkIndex(farName(i)); err == nil {
			err = node.SetLink(far, rtnl.LinkChange{NetNS: netns.NsHandle(podFile.Fd()), Name: "eth0"})
		}
	} else {
		err = addPair(node, i, rtnl.VethPeer("eth0", 0, podFile))
	}
	if err != nil {
		return err
	}
	near, errNear := node.LinkIndex(nearName(i))
	far, errFar := pod.LinkIndex("eth0")
	lo, errLo := pod.LinkIndex("lo")
	if err := errors.Join(errNear, errFar, errLo); err != nil {
		return err
	}
	var (
		address  = netip.AddrFrom4([4]byte{10, 66, 1, byte(i)})
		gateway  = netip.AddrFrom4([4]byte{10, 66, 255, 1})
		mac      = net.HardwareAddr{2, 0, 0, 0, 0, 1}
		only     = func(a netip.Addr) *net.IPNet { return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(32, 32)} }
		up       = func(name string) rtnl.LinkChange { return rtnl.LinkChange{Alias: name, Up: true} }
		neighbor = func(index int, ip netip.Addr) rtnl.Neighbour {
			return rtnl.Neighbour{Index: index, Ip: ip, Mac: mac, State: netlink.NUD_PERMANENT}
		}
	)
	return errors.Join(
		node.SetLink(near, up("near")),
		pod.SetLink(lo, up("lo")),
		pod.SetLink(far, up("far")),
		pod.AddAddress(rtnl.Address{Index: far, Prefix: netip.PrefixFrom(address, 32)}),
		pod.SetNeighbour(neighbor(far, gateway)),
		pod.RouteAdd(&netlink.Route{LinkIndex: far, Dst: only(gateway), Scope: netlink.SCOPE_LINK}),
		pod.RouteAdd(&netlink.Route{LinkIndex: far, Dst: &net.IPNet{IP: net.IPv4zero, Mask: net.CIDRMask(0, 32)}, Gw: gateway.AsSlice()}),
		node.SetNeighbour(neighbor(near, address)),
		node.AddAddress(rtnl.Address{Index: near, Prefix: netip.PrefixFrom(gateway, 32)}),
		node.RouteAdd(&netlink.Route{LinkIndex: near, Dst: only(address), Scope: netlink.SCOPE_LINK}),
	)
}
