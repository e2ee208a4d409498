package lab

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/contiv/contiv/test/calico/ipamdata"
	"github.com/vishvananda/netlink"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A lab with Calico represents a Calico cluster without BGP. The lab implements Calico's IPAM and
// CNI plugin, and the masquerading of Felix. contiv-calico-routes runs on each node instead of the
// agent and routes traffic between nodes:
//
//	AddPod ──> blocks in etcd ──> contiv-calico-routes ──> routes to the blocks of other nodes
//	   │
//	   └─────> eth0 of the pod ══ cali… of the node, and a route to the pod
//
// The lab runs neither KSR nor contiv-cni.

// CalicoPool and CalicoPool6 contain the blocks of all nodes.
var (
	CalicoPool  = netip.MustParsePrefix("10.244.0.0/16")
	CalicoPool6 = netip.MustParsePrefix("fd00:10:244::/112")
)

// CalicoTTL is the lease of a node whose program has ended. It is short because interactive users
// wait for it.
const CalicoTTL = 10 * time.Second

const (
	calicoBlockBits, calicoBlockBits6 = 26, 122
	// calicoMAC is the MAC address of the node's end of all pod links, as in Calico's CNI plugin.
	calicoMAC = "ee:ee:ee:ee:ee:ee"
)

// calicoGateway is the link-local default gateway of pods; no node owns it. calicoGateway6 is the
// link-local address derived from calicoMAC.
var (
	calicoGateway  = netip.MustParseAddr("169.254.1.1")
	calicoGateway6 = netip.MustParseAddr("fe80::ecee:eeff:feee:eeee")
)

var calicoPrograms = []string{"contiv-etcd", "contiv-calico-routes", "contivctl"}

// ErrCalico is wrapped by errors about operations that a lab with Calico does not support.
var ErrCalico = errors.New("it is a lab with Calico")

func (o Options) checkCalico() error {
	if !o.Calico {
		return nil
	}
	if o.Bare {
		return errors.New("a bare lab runs no programs: --calico is not for it")
	}
	if slices.Contains(o.VSwitches, VPPVSwitch) {
		return fmt.Errorf("--calico: the pods of this lab are the kernel's, as Calico attaches them; leave out --vswitch %s", VPPVSwitch)
	}
	return nil
}

// CalicoBlock returns the IPv4 block of the node.
func (n Node) CalicoBlock() netip.Prefix {
	a := CalicoPool.Addr().As4()
	size := 1 << (32 - calicoBlockBits)
	offset := (n.Index - 1) * size
	a[2], a[3] = a[2]+byte(offset>>8), byte(offset)
	return netip.PrefixFrom(netip.AddrFrom4(a), calicoBlockBits)
}

// CalicoBlock6 returns the IPv6 block of the node in a dual-stack lab.
func (n Node) CalicoBlock6() netip.Prefix {
	a := CalicoPool6.Addr().As16()
	size := 1 << (128 - calicoBlockBits6)
	offset := (n.Index - 1) * size
	a[14], a[15] = a[14]+byte(offset>>8), byte(offset)
	return netip.PrefixFrom(netip.AddrFrom16(a), calicoBlockBits6)
}

func (n Node) calicoBlocks() []netip.Prefix {
	if n.Address6.IsValid() {
		return []netip.Prefix{n.CalicoBlock(), n.CalicoBlock6()}
	}
	return []netip.Prefix{n.CalicoBlock()}
}

func (l *Lab) calicoArgs(n Node) []string {
	return []string{
		"--hostname", n.Name,
		"--uplink", NodeNIC,
		"--ttl", CalicoTTL.String(),
		"--run-dir", l.RunDir(n.Name),
		"--http", "127.0.0.1:9999",
	}
}

// joinCalico gives a node its block. contiv-calico-routes becomes ready only after the first block
// exists.
func (l *Lab) joinCalico(ctx context.Context, st *State, n Node) error {
	if err := l.writeCalico(ctx, st, n.Name); err != nil {
		return err
	}
	// Felix masquerades pools with natOutgoing.
	for _, pool := range st.families(CalicoPool, CalicoPool6) {
		family := "ip"
		if pool.Addr().Is6() {
			family = "ip6"
		}
		rules := fmt.Sprintf("add table %[1]s calico-lab; add chain %[1]s calico-lab out { type nat hook postrouting priority srcnat; }; "+
			"add rule %[1]s calico-lab out oifname %[2]s %[1]s saddr %[3]s %[1]s daddr != %[3]s masquerade", family, NodeNIC, pool)
		if _, err := execIn(ctx, n.Netns, "nft", rules); err != nil {
			return fmt.Errorf("hiding the pods of node %s from the outside: %w", n.Name, err)
		}
	}
	return nil
}

// leaveCalico deletes the blocks of a node, as Calico's controller does for deleted nodes.
func (l *Lab) leaveCalico(ctx context.Context, st *State, n Node) error {
	var ops []clientv3.Op
	for _, cidr := range n.calicoBlocks() {
		ops = append(ops, clientv3.OpDelete(ipamdata.BlockKey(cidr)), clientv3.OpDelete(ipamdata.AffinityKey(n.Name, cidr)))
	}
	return l.doInEtcd(ctx, st, ops...)
}

func (l *Lab) writeCalico(ctx context.Context, st *State, nodes ...string) error {
	if !st.Calico {
		return nil
	}
	var ops []clientv3.Op
	for _, name := range nodes {
		n, err := st.Node(name)
		if err != nil {
			return err
		}
		for _, cidr := range n.calicoBlocks() {
			block := ipamdata.Block{CIDR: cidr, Host: name, Used: map[int]ipamdata.Use{}}
			for _, p := range st.PodsOf(name) {
				block.Used[ipamdata.Ordinal(cidr, p.addressIn(cidr))] = ipamdata.Use{
					Handle: "k8s-pod-network." + p.ContainerID, Node: name, Namespace: p.Namespace, Pod: p.Name,
				}
			}
			ops = append(ops,
				clientv3.OpPut(ipamdata.AffinityKey(name, cidr), string(ipamdata.Affinity(ipamdata.Confirmed))),
				clientv3.OpPut(ipamdata.BlockKey(cidr), string(block.JSON())))
		}
	}
	return l.doInEtcd(ctx, st, ops...)
}

// etcdTimeout bounds the lab's own writes to etcd.
const etcdTimeout = 5 * time.Second

func (s *State) etcdRuns() error {
	if !s.Processes[etcdRole].Alive() {
		return fmt.Errorf("etcd does not run: %s starts it", Command(s.Name, "etcd start"))
	}
	return nil
}

func (l *Lab) doInEtcd(ctx context.Context, st *State, ops ...clientv3.Op) error {
	if err := st.etcdRuns(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, min(etcdTimeout, l.opts.StartTimeout))
	defer cancel()
	c, err := l.Etcd()
	if err != nil {
		return err
	}
	defer c.Close()
	for _, op := range ops {
		if _, err := c.Do(ctx, op); err != nil {
			return fmt.Errorf("etcd does not take Calico's data: %w; %s", err, st.Processes[etcdRole].logTail())
		}
	}
	return nil
}

func (p Pod) addressIn(block netip.Prefix) netip.Addr {
	if block.Addr().Is6() {
		return p.Address6
	}
	return p.Address
}

func (s *State) reserveCalicoAddresses(p *Pod, n Node) error {
	for _, cidr := range n.calicoBlocks() {
		var used []netip.Addr
		for _, other := range s.PodsOf(n.Name) {
			used = append(used, other.addressIn(cidr))
		}
		a, ok := ipamdata.Free(cidr, used)
		if !ok {
			return fmt.Errorf("node %s has no address left: all of its block %s are in use, and this lab gives a node one block of each family", n.Name, cidr)
		}
		if a.Is6() {
			p.Address6 = a
		} else {
			p.Address = a
		}
	}
	return nil
}

type calicoPod struct {
	pod  Pod
	node Node
}

func (c calicoPod) device() string {
	sum := sha1.Sum([]byte(c.pod.Namespace + "." + c.pod.Name))
	return "cali" + hex.EncodeToString(sum[:])[:11]
}

func (c calicoPod) add(context.Context) ([]netip.Addr, error) {
	mac, err := net.ParseMAC(calicoMAC)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Prefix
	for _, a := range c.pod.Addresses() {
		addresses = append(addresses, netip.PrefixFrom(a, a.BitLen()))
	}
	if c.pod.Address6.IsValid() {
		if err := InNetns(NetnsPath(c.pod.Netns), useIPv6AtOnce); err != nil {
			return nil, err
		}
	}
	err = withHandle(c.node.Netns, func(h *netlink.Handle) error {
		if err := addVeth(h, c.device(), c.pod.Netns, "eth0"); err != nil {
			return err
		}
		link, err := h.LinkByName(c.device())
		if err != nil {
			return err
		}
		err = errors.Join(h.LinkSetHardwareAddr(link, mac), configure(h, c.device()))
		for _, a := range addresses {
			err = errors.Join(err, linkRoute(h, link, a))
		}
		return err
	})
	if err == nil {
		err = withHandle(c.pod.Netns, func(h *netlink.Handle) error {
			if err := errors.Join(configure(h, "lo"), configure(h, "eth0", addresses...)); err != nil {
				return err
			}
			link, err := h.LinkByName("eth0")
			if err != nil {
				return err
			}
			err = errors.Join(
				gatewayOf(h, link, calicoGateway, mac),
				linkRoute(h, link, netip.PrefixFrom(calicoGateway, calicoGateway.BitLen())),
				defaultRoute(h, link, calicoGateway),
			)
			if c.pod.Address6.IsValid() {
				err = errors.Join(err, gatewayOf(h, link, calicoGateway6, mac), defaultRoute(h, link, calicoGateway6))
			}
			return err
		})
	}
	if err == nil {
		err = awaitUp(c.pod.Netns, "eth0")
	}
	if err != nil {
		return nil, fmt.Errorf("attaching pod %s as Calico does: %w", c.pod.ID(), err)
	}
	return c.pod.Addresses(), nil
}

// del removes the pod's interface and, with it, the route. It returns nil if the interface does not
// exist.
func (c calicoPod) del(context.Context) error {
	if _, err := os.Stat(NetnsPath(c.node.Netns)); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return withHandle(c.node.Netns, func(h *netlink.Handle) error {
		link, err := h.LinkByName(c.device())
		if errors.As(err, &netlink.LinkNotFoundError{}) {
			return nil
		}
		if err == nil {
			err = h.LinkDel(link)
		}
		return err
	})
}

func linkRoute(h *netlink.Handle, link netlink.Link, dst netip.Prefix) error {
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(dst), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("adding the route to %s on %s: %w", dst, link.Attrs().Name, err)
	}
	return nil
}

func gatewayOf(h *netlink.Handle, link netlink.Link, gateway netip.Addr, mac net.HardwareAddr) error {
	return h.NeighAdd(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: gateway.AsSlice(), HardwareAddr: mac})
}

func defaultRoute(h *netlink.Handle, link netlink.Link, gateway netip.Addr) error {
	all := anyIPv4
	if gateway.Is6() {
		all = anyIPv6
	}
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(all), Gw: gateway.AsSlice(), LinkIndex: link.Attrs().Index}); err != nil {
		return fmt.Errorf("adding the default route via %s: %w", gateway, err)
	}
	return nil
}

func (l *Lab) awaitCalicoRoutes(ctx context.Context, st *State) error {
	if !st.Calico {
		return nil
	}
	alive := slices.DeleteFunc(slices.Clone(st.Nodes), func(n Node) bool { return !st.Processes[agentRole(n.Name)].Alive() })
	for _, n := range alive {
		err := l.await(ctx, "the table of routes of "+n.Name, st.Processes[agentRole(n.Name)], func(context.Context) error {
			return n.hasCalicoRoutes(alive)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (n Node) hasCalicoRoutes(others []Node) error {
	return withHandle(n.Netns, func(h *netlink.Handle) error {
		for _, o := range others {
			if o.Name == n.Name {
				continue
			}
			for i, cidr := range o.calicoBlocks() {
				family := []int{netlink.FAMILY_V4, netlink.FAMILY_V6}[i]
				to := &netlink.Route{Dst: ipNet(cidr), Gw: o.addresses()[i].Addr().AsSlice()}
				found, err := h.RouteListFiltered(family, to, netlink.RT_FILTER_DST|netlink.RT_FILTER_GW)
				if err != nil {
					return err
				}
				if len(found) == 0 {
					return fmt.Errorf("no route to the block %s of %s", cidr, o.Name)
				}
			}
		}
		return nil
	})
}
