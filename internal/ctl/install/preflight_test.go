package install

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/plugins/contivconf"
	service "github.com/contiv/contiv/internal/plugins/service/config"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// good is a cluster of two nodes on which Contiv works.
func good() *surroundings {
	now := time.Now()
	node := func(name, ip string, labels map[string]string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: ip}}}}
	}
	facts := func(ip string) Facts {
		return Facts{
			Kernel: "6.1", Time: now, Features: map[string]string{"veth": "", "VRF": "operation not supported"},
			Links:  []Link{{Name: "eth0", MTU: 1500, Up: true, Addresses: []netip.Prefix{netip.MustParsePrefix(ip + "/24")}}},
			Routes: []Route{{netip.MustParsePrefix("192.168.16.0/24"), "eth0"}}, CNIConfigs: []string{"10-contiv-vpp.conflist"},
			VHostNet: true, VFIO: true, MemoryMiB: 8192,
		}
	}
	return &surroundings{
		version: "v1.34.4",
		nodes: []corev1.Node{
			node("node1", "192.168.16.1", map[string]string{"node-role.kubernetes.io/control-plane": ""}), node("node2", "192.168.16.2", nil),
		},
		daemons:    []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Name: "kube-proxy", Namespace: Namespace}}},
		clusterIPs: []string{"10.96.0.1"},
		facts:      map[string]Facts{"node1": facts("192.168.16.1"), "node2": facts("192.168.16.2")},
		endpoint:   "https://192.168.16.254:6443",
		conf:       contivconf.Default(), services: service.Default(), now: now,
	}
}

func TestGoodClusterHasNoProblems(t *testing.T) {
	for _, f := range good().judge() {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

func serviceCIDRs(cidrs ...string) []networkingv1.ServiceCIDR {
	return []networkingv1.ServiceCIDR{{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}}
}

// Agents read the ranges of cluster IPs from the cluster, whatever contiv.conf says.
func TestServiceCIDRsNeedNoOption(t *testing.T) {
	s := good()
	s.clusterIPs, s.cidrs = []string{"10.43.0.1"}, serviceCIDRs("10.43.0.0/16")
	f := s.facts["node2"]
	f.Routes = append(f.Routes, Route{netip.MustParsePrefix("10.97.0.0/16"), "tun0"}) // in the option's default
	s.facts["node2"] = f
	for _, found := range s.judge() {
		if found.Level != OK {
			t.Errorf("%+v", found)
		}
	}
}

func TestPreflightFinds(t *testing.T) {
	on2 := func(change func(*Facts)) func(*surroundings) {
		return func(s *surroundings) {
			f := s.facts["node2"]
			change(&f)
			s.facts["node2"] = f
		}
	}
	vpp := func(s *surroundings) { s.nodes[1].Labels = map[string]string{"contivpp.io/vswitch": "vpp"} }
	for _, c := range []struct {
		name   string
		change func(*surroundings)
		level  string
		what   string // both in the same finding
		do     string
	}{
		{"no VRF devices, beside a problem", on2(func(f *Facts) { f.Features["veth"] = "operation not supported" }), OK, "VRFs other than 0", ""},
		{"old Kubernetes", func(s *surroundings) { s.version = "v1.31.9" }, Error, "1.31.9", "upgrade"},
		{"no control plane", func(s *surroundings) { s.nodes[0].Labels = nil }, Error, "control-plane", "kubectl label node"},
		{"two of the control plane", func(s *surroundings) { s.nodes[1].Labels = s.nodes[0].Labels }, Warning, "2 control plane nodes", "etcd.nodeSelector"},
		{"another CNI", func(s *surroundings) { s.daemons[0].Name = "calico-node" }, Error, "kube-system/calico-node", "delete daemonset calico-node"},
		{"kube-proxy beside us", func(s *surroundings) { s.services.Services = service.VSwitch }, Warning, "kube-proxy runs", "kube-proxy --cleanup"},
		{"no kube-proxy", on2(func(f *Facts) { f.Service = "connection refused" }), Error, "connection refused", "--api-server https://192.168.16.254:6443"},
		{"no kube-proxy, though it is asked for", func(s *surroundings) {
			s.services.Services, s.apiServer = service.KubeProxy, "https://192.168.16.254:6443"
			on2(func(f *Facts) { f.Service = "connection refused" })(s)
		}, Error, "connection refused", "run kube-proxy"},
		{"other cluster IPs", func(s *surroundings) { s.clusterIPs = []string{"10.43.0.1"} }, Error, "10.43.0.1", "serviceCIDR"},
		{"other cluster IPs of IPv4", func(s *surroundings) { s.clusterIPs, s.cidrs = []string{"10.43.0.1"}, serviceCIDRs("fd96::/108") }, Error, "10.43.0.1", "serviceCIDR"},
		{"pods in a ServiceCIDR", func(s *surroundings) { s.cidrs = serviceCIDRs("10.0.0.0/12") }, Error, "ServiceCIDR 10.0.0.0/12 overlaps with ipamConfig.podSubnetCIDR 10.1.0.0/16", "podSubnetCIDR"},
		{"route in a ServiceCIDR", func(s *surroundings) {
			s.clusterIPs, s.cidrs = []string{"10.43.0.1"}, serviceCIDRs("10.43.0.0/16")
			on2(func(f *Facts) { f.Routes = append(f.Routes, Route{netip.MustParsePrefix("10.43.7.0/24"), "tun0"}) })(s)
		}, Error, "10.43.0.0/16, but the node reaches 10.43.7.0/24 through tun0", "ServiceCIDR"},
		{"kernel", on2(func(f *Facts) { f.Features["vxlan"] = "operation not supported" }), Error, "vxlan", "module"},
		{"clock", on2(func(f *Facts) { f.Time = f.Time.Add(-2 * time.Hour) }), Error, "2h0m0s", "synchronise"},
		{"no InternalIP", func(s *surroundings) { s.nodes[1].Status.Addresses = nil }, Error, "no InternalIP", "--node-ip"},
		{"InternalIP elsewhere", on2(func(f *Facts) { f.Links[0].Addresses = nil }), Error, "192.168.16.2", "--node-ip"},
		{"link down", on2(func(f *Facts) { f.Links[0].Up = false }), Error, "is down", "ip link set dev eth0 up"},
		{"MTU too large", func(s *surroundings) { s.conf.MTUSize = 1500 }, Error, "50 bytes more", "1450 or less"},
		{"MTUs differ", on2(func(f *Facts) { f.Links[0].MTU = 9000 }), Warning, "1500 on node1; 9000 on node2", "mtuSize of contiv.conf to 1450"},
		{"colliding route", on2(func(f *Facts) { f.Routes = append(f.Routes, Route{netip.MustParsePrefix("10.1.128.0/17"), "tun0"}) }), Error, "podSubnetCIDR is 10.1.0.0/16, but the node reaches 10.1.128.0/17 through tun0", "another network"},
		{"colliding VXLAN", on2(func(f *Facts) { f.Routes = append(f.Routes, Route{netip.MustParsePrefix("192.168.0.0/16"), "eth1"}) }), Error, "vxlanCIDR", ""},
		{"CNI that comes first", on2(func(f *Facts) { f.CNIConfigs = []string{"05-cilium.conflist"} }), Error, "05-cilium.conflist", "remove"},
		{"CNI that comes later", on2(func(f *Facts) { f.CNIConfigs = append(f.CNIConfigs, "87-podman.conflist") }), Warning, "87-podman.conflist", "remove"},
		{"VPP without a card", vpp, Error, "network card in addition", "nodeConfig"},
		{"VPP without vhost", func(s *surroundings) { vpp(s); on2(func(f *Facts) { f.VHostNet = false })(s) }, Warning, "vhost-net", "modprobe"},
		{"VPP in a small machine", func(s *surroundings) { vpp(s); on2(func(f *Facts) { f.MemoryMiB = 1024 })(s) }, Warning, "1024 MiB", "memory"},
	} {
		s := good()
		c.change(s)
		found := false
		for _, f := range s.judge() {
			found = found || f.Level == c.level && strings.Contains(f.What, c.what) && strings.Contains(f.Do, c.do)
		}
		if !found {
			t.Errorf("%s: %+v", c.name, s.judge())
		}
	}
}

func TestClusterWithoutKubeProxyIsGood(t *testing.T) {
	s := good()
	s.daemons, s.apiServer = nil, s.endpoint
	for name, f := range s.facts {
		f.Service = "connection refused"
		s.facts[name] = f
	}
	for _, f := range s.judge() {
		if f.Level != OK {
			t.Errorf("%+v", f)
		}
	}
}

// Contiv's own routes collide with nothing.
func TestRoutesOfContivAreNoProblem(t *testing.T) {
	s := good()
	f := s.facts["node2"]
	f.Routes = append(f.Routes, Route{netip.MustParsePrefix("10.1.1.0/24"), "vxlanBVI"})
	s.facts["node2"] = f
	s.daemons = append(s.daemons, appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "contiv-agent", Namespace: Namespace}})
	for _, found := range s.judge() {
		if found.Level != OK {
			t.Errorf("%+v", found)
		}
	}
}

// A machine that runs Contiv has the required features, and the probes leave no trace in a
// namespace.
func TestFactsOfThisMachine(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root: run the test as root")
	}
	f, err := Look(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range needed {
		if reason := f.Features[name]; reason != "" {
			t.Errorf("%s: %s", name, reason)
		}
		if probes[name] == nil {
			t.Errorf("nobody tries %s", name)
		}
	}
	if f.Kernel == "" || f.MemoryMiB == 0 || f.Service != unknown {
		t.Errorf("facts: %+v", f)
	}
}
