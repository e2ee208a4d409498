package install

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/netlink/namespace"
	"github.com/contiv/contiv/internal/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Facts are the report of a node about itself.
type Facts struct {
	// Facts is a node's report about itself.
	Kernel string `json:"kernel"`
	// Time of its clock.
	Time time.Time `json:"time"`
	// Features maps kernel features, tried in a separate network namespace, to errors; "" if they
	// work.
	Features map[string]string `json:"features"`
	// Links lists network cards and all other devices with an address.
	Links []Link `json:"links"`
	// Routes through the links, except for default routes.
	Routes []Route `json:"routes"`
	// CNIConfigs lists the names of the runtime's network configuration files.
	CNIConfigs []string `json:"cniConfigs"`
	// Service is why the API server's cluster IP was not reached, "" if it was; "unknown" outside
	// of a pod.
	Service string `json:"service"`
	// VHostNet and VFIO report whether VPP's devices exist.
	VHostNet bool `json:"vhostNet"`
	VFIO     bool `json:"vfio"`
	// HugepagesFree is the number of free huge pages of the default size.
	HugepagesFree int `json:"hugepagesFree"`
	MemoryMiB     int `json:"memoryMiB"`
}

// Link is a network device.
type Link struct {
	Name      string         `json:"name"`
	MTU       int            `json:"mtu"`
	Up        bool           `json:"up"`
	Addresses []netip.Prefix `json:"addresses"`
}

// Route is a route of the main table.
type Route struct {
	To   netip.Prefix `json:"to"`
	Link string       `json:"link"`
}

// Look collects the facts of this node. hostRoot is the mount point of its file system; "" is the
// root.
func Look(ctx context.Context, hostRoot string) (Facts, error) {
	f := Facts{Time: time.Now().UTC(), Kernel: strings.TrimSpace(read("/proc/sys/kernel/osrelease"))}
	var err error
	if f.Features, err = probeFeatures(); err != nil {
		return f, err
	}
	if err := f.lookAtLinks(); err != nil {
		return f, err
	}
	for _, pattern := range []string{"*.conf", "*.conflist", "*.json"} {
		files, _ := filepath.Glob(filepath.Join(hostRoot, "/etc/cni/net.d", pattern))
		for _, file := range files {
			f.CNIConfigs = append(f.CNIConfigs, filepath.Base(file))
		}
	}
	slices.Sort(f.CNIConfigs)
	f.Service = reachService(ctx)
	f.VHostNet, f.VFIO = exists(hostRoot+"/dev/vhost-net"), exists(hostRoot+"/dev/vfio/vfio")
	for line := range strings.Lines(read("/proc/meminfo")) {
		var n int
		if _, err := fmt.Sscanf(line, "HugePages_Free: %d", &n); err == nil {
			f.HugepagesFree = n
		}
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &n); err == nil {
			f.MemoryMiB = n / 1024
		}
	}
	return f, nil
}

func read(file string) string { data, _ := os.ReadFile(file); return string(data) }

func exists(file string) bool { _, err := os.Stat(file); return err == nil }

func (f *Facts) lookAtLinks() error {
	links, err := netlink.LinkList()
	if err != nil {
		return fmt.Errorf("list the links: %w", err)
	}
	names := map[int]string{}
	for _, l := range links {
		names[l.Attrs().Index] = l.Attrs().Name
		addresses, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		if err != nil {
			return fmt.Errorf("list the addresses of %s: %w", l.Attrs().Name, err)
		}
		link := Link{Name: l.Attrs().Name, MTU: l.Attrs().MTU, Up: l.Attrs().Flags&net.FlagUp != 0}
		for _, a := range addresses {
			if p, ok := prefix(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
				link.Addresses = append(link.Addresses, p)
			}
		}
		if _, card := l.(*netlink.Device); (card || len(link.Addresses) > 0) && l.Attrs().Flags&net.FlagLoopback == 0 {
			f.Links = append(f.Links, link)
		}
	}
	routes, err := netlink.RouteList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("list the routes: %w", err)
	}
	for _, r := range routes {
		if p, ok := prefix(r.Dst); ok && p.Bits() > 0 && !p.Addr().IsLinkLocalUnicast() && !p.Addr().IsMulticast() {
			f.Routes = append(f.Routes, Route{To: p, Link: names[r.LinkIndex]})
		}
	}
	return nil
}

func prefix(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	p := netip.PrefixFrom(address.Unmap(), ones)
	return p, ok && p.IsValid()
}

// reachService tries whether processes of the node can use services.
func reachService(ctx context.Context) string {
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" {
		return unknown
	}
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err.Error()
	}
	conn.Close()
	return ""
}

const unknown = "unknown"

// vrfFeature is the name of the feature VRF devices.
const vrfFeature = "VRF"

// needed lists the kernel features required by kernel nodes; the others are for external
// configuration.
var needed = []string{"veth", "bridge", "vxlan", "nftables", "nftables fib", "nat", "conntrack"}

// probeFeatures tries the kernel features in a network namespace that ends with its thread.
func probeFeatures() (map[string]string, error) {
	type result struct {
		features map[string]string
		err      error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread() // no unlock: the thread ends with the goroutine
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			results <- result{err: fmt.Errorf("create a network namespace to check features of the kernel: %w (requires root or CAP_SYS_ADMIN)", err)}
			return
		}
		features := map[string]string{}
		for name, probe := range probes {
			features[name] = ""
			if err := probe(); err != nil {
				features[name] = err.Error()
			}
		}
		results <- result{features: features}
	}()
	r := <-results
	return r.features, r.err
}

var probes = map[string]func() error{
	"veth":   link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Veth{LinkAttrs: a, PeerName: "peer"} }),
	"bridge": link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Bridge{LinkAttrs: a} }),
	"vxlan": link(func(a netlink.LinkAttrs) netlink.Link {
		return &netlink.Vxlan{LinkAttrs: a, VxlanId: 10, Port: 4789, SrcAddr: net.IPv4(127, 0, 0, 1)}
	}),
	"dummy":    link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Dummy{LinkAttrs: a} }),
	vrfFeature: link(func(a netlink.LinkAttrs) netlink.Link { return &netlink.Vrf{LinkAttrs: a, Table: 10} }),
	"WireGuard": link(func(a netlink.LinkAttrs) netlink.Link {
		return &netlink.Wireguard{LinkAttrs: a}
	}),
	"bond": link(func(a netlink.LinkAttrs) netlink.Link {
		bond := netlink.NewLinkBond(a)
		bond.Mode = netlink.BOND_MODE_ACTIVE_BACKUP
		return bond
	}),
	"VLAN": func() error { // of an Ethernet device
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "parent"
		parent := &netlink.Veth{LinkAttrs: attrs, PeerName: "peer"}
		if err := netlink.LinkAdd(parent); err != nil {
			return err
		}
		err := link(func(a netlink.LinkAttrs) netlink.Link {
			a.ParentIndex = parent.Index
			return &netlink.Vlan{LinkAttrs: a, VlanId: 10}
		})()
		return errors.Join(err, netlink.LinkDel(parent))
	},
	"nftables":     inNAT(),
	"nftables fib": fibType,
	"nat":          inNAT(&expr.Masq{}),
	"conntrack":    inNAT(&expr.Ct{Key: expr.CtKeySTATE, Register: 1}),
	"policy rules": policyRule,
}

// link tries to create a device.
func link(device func(netlink.LinkAttrs) netlink.Link) func() error {
	return func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "probe"
		l := device(attrs)
		if err := netlink.LinkAdd(l); err != nil {
			return err
		}
		return netlink.LinkDel(l)
	}
}

// inNAT tries to create a NAT chain with a rule.
func inNAT(rule ...expr.Any) func() error {
	return func() error {
		var batches []*nft.Batch
		for _, family := range []byte{unix.NFPROTO_IPV4, unix.NFPROTO_IPV6} {
			b := &nft.Batch{Table: "probe", Family: family}
			b.AddTable()
			b.AddChain(&nftables.Chain{Name: "probe", Type: nftables.ChainTypeNAT,
				Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
			b.AddRule("probe", "", nft.Words(rule...))
			b.DeleteTable()
			batches = append(batches, b)
		}
		return commit(batches...)
	}
}

// fibType tries the expression with which policies recognise the node's own packets.
func fibType() error {
	b := &nft.Batch{Table: "probe", Family: unix.NFPROTO_INET}
	b.AddTable()
	b.AddChain(&nftables.Chain{Name: "probe", Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookOutput, Priority: nftables.ChainPriorityFilter})
	b.AddText("probe", "", "fib saddr type local accept")
	b.DeleteTable()
	return commit(b)
}

func commit(batches ...*nft.Batch) error {
	ns, err := namespace.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer ns.Close()
	conn, err := nft.Open(ns)
	if err != nil {
		return err
	}
	defer conn.Release()
	return conn.Locked(func() error { return conn.Commit(batches...) })
}

func policyRule() error {
	rule := netlink.NewRule()
	rule.Table, rule.Priority, rule.Mark = 10, 1000, 1
	if err := netlink.RuleAdd(rule); err != nil {
		return err
	}
	return errors.Join(netlink.RuleDel(rule))
}
