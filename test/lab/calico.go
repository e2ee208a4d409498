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

// A lab with Calico stands for a Calico cluster without BGP. The lab plays Calico's IPAM and CNI
// plugin, and Felix as far as it hides pods from the outside; whatever leads from node to node is
// the work of contiv-calico-routes, which runs on each node in place of the agent:
//
//	AddPod ──> blocks in etcd ──> contiv-calico-routes ──> routes to the other nodes' blocks
//	   │
//	   └─────> eth0 of the pod ══ cali… of the node, and a route to the pod
//
// There is no KSR and no contiv-cni.

// CalicoPool has the blocks of all nodes.
var CalicoPool = netip.MustParsePrefix("10.244.0.0/16")

// CalicoTTL is how long nodes believe in one whose program has ended; short, for people who wait.
const CalicoTTL = 10 * time.Second

const (
	// calicoBlockBits is the length of the prefix of a block.
	calicoBlockBits = 26
	// calicoMAC is that of all nodes, for their pods: what Calico's CNI plugin sets.
	calicoMAC = "ee:ee:ee:ee:ee:ee"
)

// calicoGateway is the default gateway of pods; no node has the address.
var calicoGateway = netip.MustParseAddr("169.254.1.1")

// calicoPrograms are what a lab with Calico runs.
var calicoPrograms = []string{"contiv-etcd", "contiv-calico-routes", "contivctl"}

// ErrCalico is wrapped by errors about what a lab with Calico lacks.
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

// CalicoBlock is the block of the node.
func (n Node) CalicoBlock() netip.Prefix {
	a := CalicoPool.Addr().As4()
	size := 1 << (32 - calicoBlockBits)
	offset := (n.Index - 1) * size
	a[2], a[3] = a[2]+byte(offset>>8), byte(offset)
	return netip.PrefixFrom(netip.AddrFrom4(a), calicoBlockBits)
}

// calicoArgs are the arguments of the program of a node.
func (l *Lab) calicoArgs(n Node) []string {
	return []string{
		"--hostname", n.Name,
		"--uplink", nodeNIC,
		"--etcd-endpoints", "http://" + etcdAddress,
		"--ttl", CalicoTTL.String(),
		"--run-dir", l.RunDir(n.Name),
		"--http", "127.0.0.1:9999",
	}
}

// joinCalico gives a node its block. Without any block, contiv-calico-routes does not become ready:
// it would wait for the first one.
func (l *Lab) joinCalico(ctx context.Context, st *State, n Node) error {
	if err := l.writeCalico(ctx, st, n.Name); err != nil {
		return err
	}
	// What Felix does for a pool with natOutgoing.
	rules := fmt.Sprintf("add table ip calico-lab; add chain ip calico-lab out { type nat hook postrouting priority srcnat; }; "+
		"add rule ip calico-lab out oifname %s ip saddr %s ip daddr != %s masquerade", nodeNIC, CalicoPool, CalicoPool)
	if _, err := execIn(ctx, n.Netns, "nft", rules); err != nil {
		return fmt.Errorf("hiding the pods of node %s from the outside: %w", n.Name, err)
	}
	return nil
}

// leaveCalico takes the block of a node away, as Calico's controller does when a node is deleted.
func (l *Lab) leaveCalico(ctx context.Context, st *State, n Node) error {
	return l.doInEtcd(ctx, st,
		clientv3.OpDelete(ipamdata.BlockKey(n.CalicoBlock())),
		clientv3.OpDelete(ipamdata.AffinityKey(n.Name, n.CalicoBlock())))
}

// writeCalico writes the blocks of nodes, in which the addresses of the pods in the state are in use.
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
		block := ipamdata.Block{CIDR: n.CalicoBlock(), Host: name, Used: map[int]ipamdata.Use{}}
		for _, p := range st.PodsOf(name) {
			block.Used[ipamdata.Ordinal(block.CIDR, p.Address)] = ipamdata.Use{
				Handle: "k8s-pod-network." + p.ContainerID, Node: name, Namespace: p.Namespace, Pod: p.Name,
			}
		}
		ops = append(ops,
			clientv3.OpPut(ipamdata.AffinityKey(name, block.CIDR), string(ipamdata.Affinity(ipamdata.Confirmed))),
			clientv3.OpPut(ipamdata.BlockKey(block.CIDR), string(block.JSON())))
	}
	return l.doInEtcd(ctx, st, ops...)
}

// etcdTimeout is how long etcd may take for what the lab itself writes.
const etcdTimeout = 5 * time.Second

// etcdRuns returns an error if etcd was stopped.
func (s *State) etcdRuns() error {
	if !s.Processes[etcdRole].Alive() {
		return errors.New("etcd does not run, in which Calico's data are: contiv-lab etcd start starts it")
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

// reserveCalicoAddress is what Calico's IPAM would give a new pod of the node.
func (s *State) reserveCalicoAddress(n Node) (netip.Addr, error) {
	var used []netip.Addr
	for _, p := range s.PodsOf(n.Name) {
		used = append(used, p.Address)
	}
	a, ok := ipamdata.Free(n.CalicoBlock(), used)
	if !ok {
		return a, fmt.Errorf("node %s has no address left: all of its block %s are in use, and this lab gives a node one block", n.Name, n.CalicoBlock())
	}
	return a, nil
}

// calicoPod attaches a pod as Calico's CNI plugin does.
type calicoPod struct {
	pod  Pod
	node Node
}

// device is the name of the pod's interface on the node.
func (c calicoPod) device() string {
	sum := sha1.Sum([]byte(c.pod.Namespace + "." + c.pod.Name))
	return "cali" + hex.EncodeToString(sum[:])[:11]
}

func (c calicoPod) add(context.Context) (netip.Addr, error) {
	mac, err := net.ParseMAC(calicoMAC)
	if err != nil {
		return netip.Addr{}, err
	}
	address := netip.PrefixFrom(c.pod.Address, c.pod.Address.BitLen())
	gateway := netip.PrefixFrom(calicoGateway, calicoGateway.BitLen())
	err = withHandle(c.node.Netns, func(h *netlink.Handle) error {
		if err := addVeth(h, c.device(), c.pod.Netns, "eth0"); err != nil {
			return err
		}
		link, err := h.LinkByName(c.device())
		if err != nil {
			return err
		}
		return errors.Join(h.LinkSetHardwareAddr(link, mac), configure(h, c.device()), linkRoute(h, link, address))
	})
	if err == nil {
		err = withHandle(c.pod.Netns, func(h *netlink.Handle) error {
			if err := errors.Join(configure(h, "lo"), configure(h, "eth0", address)); err != nil {
				return err
			}
			link, err := h.LinkByName("eth0")
			if err != nil {
				return err
			}
			return errors.Join(
				h.NeighAdd(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: calicoGateway.AsSlice(), HardwareAddr: mac}),
				linkRoute(h, link, gateway),
				addRoute(h, netip.MustParsePrefix("0.0.0.0/0"), calicoGateway),
			)
		})
	}
	if err == nil {
		err = awaitUp(c.pod.Netns, "eth0")
	}
	if err != nil {
		return netip.Addr{}, fmt.Errorf("attaching pod %s as Calico does: %w", c.pod.ID(), err)
	}
	return c.pod.Address, nil
}

// del removes the pod's interface, and with it the route. A missing one is no error.
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

// linkRoute adds a route to what is directly behind a link.
func linkRoute(h *netlink.Handle, link netlink.Link, dst netip.Prefix) error {
	if err := h.RouteAdd(&netlink.Route{Dst: ipNet(dst), LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK}); err != nil {
		return fmt.Errorf("adding the route to %s on %s: %w", dst, link.Attrs().Name, err)
	}
	return nil
}

// awaitCalicoRoutes returns when the nodes whose program runs have routes to each other's blocks.
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

// hasCalicoRoutes returns an error if the kernel of a node lacks a route to the block of another one.
func (n Node) hasCalicoRoutes(others []Node) error {
	return withHandle(n.Netns, func(h *netlink.Handle) error {
		for _, o := range others {
			if o.Name == n.Name {
				continue
			}
			to := &netlink.Route{Dst: ipNet(o.CalicoBlock()), Gw: o.Address.Addr().AsSlice()}
			found, err := h.RouteListFiltered(netlink.FAMILY_V4, to, netlink.RT_FILTER_DST|netlink.RT_FILTER_GW)
			if err != nil {
				return err
			}
			if len(found) == 0 {
				return fmt.Errorf("there is no route to the block %s of %s", o.CalicoBlock(), o.Name)
			}
		}
		return nil
	})
}
