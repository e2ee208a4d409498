package install

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/kube"
	"github.com/contiv/contiv/internal/kubernetes/kubeaddr"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	service "github.com/contiv/contiv/internal/plugins/service/config"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilversion "k8s.io/apimachinery/pkg/util/version"
)

// Finding is a result of a check of the cluster.
type Finding struct {
	// Level is "ok", "warning" or "error". Contiv does not work with an error.
	Level string `json:"level"`
	// Node that it concerns; "": the cluster.
	Node string `json:"node,omitempty"`
	// What describes the finding.
	What string `json:"what"`
	// Do is the remedy.
	Do string `json:"do,omitempty"`
}

// Levels of findings.
const (
	OK      = "ok"
	Warning = "warning"
	Error   = "error"
)

// findings collects findings.
type findings []Finding

func (f *findings) add(level, node, do, what string, args ...any) {
	*f = append(*f, Finding{Level: level, Node: node, What: fmt.Sprintf(what, args...), Do: do})
}

// Preflight checks whether Contiv, configured by m, works on the cluster and its nodes. It runs a
// pod on each node for a few seconds.
func (c *Cluster) Preflight(ctx context.Context, m Manifests) ([]Finding, error) {
	if err := c.reachable(ctx); err != nil {
		return nil, err
	}
	objects, err := (&Manifests{Files: m.Files, Values: m.Values, Config: m.Config, VPP: true}).objects(ctx)
	if err == nil {
		err = checkConfiguration(objects, every)
	}
	if err != nil {
		return nil, err
	}
	s := surroundings{facts: map[string]Facts{}}
	if s.conf, s.services, err = configurationOf(objects); err != nil {
		return nil, err
	}
	if s.version, err = c.client.Version(ctx); err != nil {
		return nil, err
	}
	if s.nodes, err = kube.List[corev1.Node](ctx, c.client.Resource(kube.Nodes), ""); err != nil {
		return nil, err
	}
	if s.daemons, err = kube.List[appsv1.DaemonSet](ctx, c.client.Resource(kube.DaemonSets), ""); err != nil {
		return nil, err
	}
	if kubernetes, err := kube.Get[corev1.Service](ctx, c.client.Resource(kube.Services).Namespace("default"), "kubernetes"); err == nil {
		s.clusterIPs = kubernetes.Spec.ClusterIPs
	}
	if s.cidrs, err = kube.List[networkingv1.ServiceCIDR](ctx, c.client.Resource(kube.ServiceCIDRs), ""); err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	names, err := c.nodeNames(ctx)
	if err != nil {
		return nil, err
	}
	c.say("checking %d nodes", len(names))
	printed, err := c.onNodes(ctx, "contiv-preflight", names, false, func(string) *corev1.PodSpec { return preflightPod(cmp.Or(m.Image, DefaultImage)) })
	if err != nil {
		return nil, err
	}
	for node, text := range printed {
		var f Facts
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			return nil, fmt.Errorf("output of the pod on node %s: %w: %s", node, err, text)
		}
		s.facts[node] = f
	}
	s.apiServer = m.Config[apiServerKey]
	if s.endpoint, err = c.apiServerEndpoint(ctx); err != nil {
		return nil, err
	}
	s.now = time.Now()
	return s.judge(), nil
}

// apiServerEndpoint returns an API server address that works without services.
func (c *Cluster) apiServerEndpoint(ctx context.Context) (string, error) {
	slices, err := kube.List[discoveryv1.EndpointSlice](ctx, c.client.Resource(kube.EndpointSlices).Namespace("default"), "kubernetes.io/service-name=kubernetes")
	if err != nil {
		return "", err
	}
	for _, slice := range slices {
		for _, e := range slice.Endpoints {
			for _, port := range slice.Ports {
				if port.Port != nil && len(e.Addresses) > 0 {
					return "https://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*port.Port))), nil
				}
			}
		}
	}
	return "", nil
}

func configurationOf(objects []*unstructured.Unstructured) (contivconf.Config, service.Config, error) {
	conf, services := contivconf.Default(), service.Default()
	for _, o := range objects {
		if o.GetKind() != "ConfigMap" {
			continue
		}
		data, _, err := unstructured.NestedStringMap(o.Object, "data")
		if err != nil {
			return conf, services, fmt.Errorf("%s: %w", name(o), err)
		}
		for file, text := range data {
			var err error
			switch file {
			case "contiv.conf":
				conf, err = contivconf.Load([]byte(text))
			case "service.conf":
				services, err = service.Load([]byte(text))
			}
			if err != nil {
				return conf, services, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return conf, services, nil
}

// preflightPod returns a pod that prints its node's facts.
func preflightPod(image string) *corev1.PodSpec {
	return &corev1.PodSpec{
		PriorityClassName:            "system-node-critical",
		AutomountServiceAccountToken: new(false),
		SecurityContext:              &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "preflight", Image: image, ImagePullPolicy: corev1.PullIfNotPresent,
			Command: []string{"contivctl", "preflight", "--here", "--host-root=/host", "--output=json"},
			SecurityContext: &corev1.SecurityContext{
				RunAsUser: new(int64(0)), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: []corev1.Capability{"NET_ADMIN", "SYS_ADMIN"}},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "dev", MountPath: "/host/dev", ReadOnly: true},
				{Name: "cni-conf", MountPath: "/host/etc/cni/net.d", ReadOnly: true},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "dev", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/dev"}}},
			{Name: "cni-conf", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc/cni/net.d", Type: new(corev1.HostPathDirectoryOrCreate)}}},
		},
	}
}

// surroundings holds the facts for Preflight.
type surroundings struct {
	version    string
	nodes      []corev1.Node
	daemons    []appsv1.DaemonSet
	clusterIPs []string
	// cidrs are empty before Kubernetes 1.33.
	cidrs []networkingv1.ServiceCIDR
	facts map[string]Facts
	// apiServer is the setting, endpoint a possible value for it.
	apiServer, endpoint string
	conf                contivconf.Config
	services            service.Config
	now                 time.Time
}

// oldest is the oldest supported Kubernetes version.
const oldest = "1.32.0"

// otherCNIs lists the DaemonSets of other network plugins.
var otherCNIs = []string{"calico-node", "canal", "cilium", "kube-flannel", "kube-flannel-ds", "weave-net", "kube-router", "antrea-agent", "kindnet", "aws-node", "azure-cni", "ovnkube-node", "romana-agent"}

func (s *surroundings) judge() []Finding {
	var f findings
	s.judgeCluster(&f)
	for _, node := range s.nodes {
		s.judgeNode(&f, &node, s.facts[node.Name])
	}
	s.judgeMTUs(&f)
	return f
}

func (s *surroundings) judgeCluster(f *findings) {
	if v, err := utilversion.ParseGeneric(s.version); err != nil || v.LessThan(utilversion.MustParseGeneric(oldest)) {
		f.add(Error, "", "upgrade the cluster", "Kubernetes is %s, older than %s", s.version, oldest)
	} else {
		f.add(OK, "", "", "Kubernetes %s", s.version)
	}
	controlPlane := 0
	for _, n := range s.nodes {
		if _, ok := n.Labels["node-role.kubernetes.io/control-plane"]; ok {
			controlPlane++
		}
	}
	switch controlPlane {
	case 0:
		f.add(Error, "", labelControlPlane, "no node has the label node-role.kubernetes.io/control-plane, which etcd and KSR require")
	case 1:
		f.add(OK, "", "", "one node of the control plane, for etcd and KSR")
	default:
		f.add(Warning, "", "select one with etcd.nodeSelector of the chart, or use your own etcd (docs/operator/install.md)",
			"%d control plane nodes: etcd keeps its data on the node where it first starts", controlPlane)
	}
	kubeProxy := false
	for _, d := range s.daemons {
		if slices.Contains(otherCNIs, d.Name) {
			f.add(Error, "", fmt.Sprintf("remove it: kubectl -n %s delete daemonset %s, and its other objects", d.Namespace, d.Name),
				"another network plugin is installed: DaemonSet %s/%s", d.Namespace, d.Name)
		}
		kubeProxy = kubeProxy || d.Name == "kube-proxy"
	}
	if kubeProxy && s.services.Services == service.VSwitch {
		f.add(Warning, "", "kubectl -n kube-system delete daemonset kube-proxy, and run kube-proxy --cleanup on each node; or set services: auto",
			"service.conf has services: vswitch, but kube-proxy runs, so Contiv would not implement services")
	}
	ofCluster, configured := s.serviceRanges()
	networks := s.networks(true)
	for _, option := range slices.Sorted(maps.Keys(networks)) {
		for _, network := range parsed(networks[option]) {
			for _, services := range ofCluster {
				if services.Overlaps(network) {
					f.add(Error, "", fmt.Sprintf("set ipamConfig.%s of contiv.conf to another network", option),
						"ServiceCIDR %s overlaps with ipamConfig.%s %s: agents ignore it", services, option, network)
				}
			}
		}
	}
	for _, network := range configured {
		for _, ip := range s.clusterIPs {
			if a, err := kubeaddr.ParseAddr(ip); err == nil && a.Is4() == network.Addr().Is4() && !network.Contains(a) {
				f.add(Error, "", "set ipamConfig.serviceCIDR of contiv.conf to the API server's --service-cluster-ip-range",
					"ipamConfig.serviceCIDR is %s, but the cluster IP of the API server is %s", network, a)
			}
		}
	}
}

func (s *surroundings) judgeNode(f *findings, node *corev1.Node, facts Facts) {
	before := len(*f)
	add := func(level, do, what string, args ...any) { f.add(level, node.Name, do, what, args...) }
	onVPP := node.Labels["contivpp.io/vswitch"] == "vpp"
	for _, feature := range needed {
		if reason := facts.Features[feature]; reason != "" && !onVPP {
			add(Error, "load its module, or use a kernel that has it, such as a distribution's", "kernel %s: %s does not work: %s", facts.Kernel, feature, reason)
		}
	}
	if skew := facts.Time.Sub(s.now).Abs(); skew > 30*time.Minute {
		add(Error, "synchronise the clocks: certificates tolerate less than an hour", "its clock differs from this machine's by %s", skew.Round(time.Minute))
	}
	s.judgeUplink(add, node, facts)
	if !s.installed() {
		s.judgeRoutes(add, node, facts)
	}
	for _, file := range facts.CNIConfigs {
		if !strings.HasPrefix(file, "10-contiv") {
			level, what := Warning, "runtimes use the first file by name, and Contiv's is 10-contiv-vpp.conflist"
			if file < "10-contiv" {
				level = Error
			}
			add(level, "remove it when it is no longer needed", "/etc/cni/net.d/%s configures another network plugin: %s", file, what)
		}
	}
	switch reached := facts.Service == "" || facts.Service == unknown; {
	case reached:
	case s.services.Services == service.KubeProxy || onVPP:
		add(Error, "run kube-proxy on it", "the node cannot reach the cluster IP of the API server: %s", facts.Service)
	case s.apiServer == "":
		add(Error, "run kube-proxy, or let Contiv replace it and set the API server's address: --api-server "+cmp.Or(s.endpoint, "https://ADDRESS:PORT"),
			"services do not work: the node cannot reach the cluster IP of the API server: %s", facts.Service)
	}
	if onVPP {
		judgeVPP(add, facts)
	}
	sound := !slices.ContainsFunc((*f)[before:], func(x Finding) bool { return x.Level != OK })
	if facts.Features[vrfFeature] != "" && !onVPP {
		add(OK, "", "kernel %s has no VRF devices (CONFIG_NET_VRF): values of VRFs other than 0 are UNIMPLEMENTED", facts.Kernel)
	}
	if sound {
		var lacks []string
		for _, name := range slices.Sorted(maps.Keys(facts.Features)) {
			if facts.Features[name] != "" {
				lacks = append(lacks, name)
			}
		}
		text := ""
		if len(lacks) > 0 {
			text = ", without " + strings.Join(lacks, ", ") + ", needed only by external configuration"
		}
		add(OK, "", "kernel %s%s", facts.Kernel, text)
	}
}

// installed reports whether Contiv runs: the nodes then have its routes.
func (s *surroundings) installed() bool {
	return slices.ContainsFunc(s.daemons, func(d appsv1.DaemonSet) bool { return d.Name == "contiv-agent" && d.Namespace == Namespace })
}

// uplink returns the link with the node's address in Kubernetes.
func uplink(node *corev1.Node, facts Facts) (Link, netip.Addr, bool) {
	for _, a := range node.Status.Addresses {
		ip, err := kubeaddr.ParseAddr(a.Address)
		if a.Type != corev1.NodeInternalIP || err != nil {
			continue
		}
		for _, l := range facts.Links {
			if slices.ContainsFunc(l.Addresses, func(p netip.Prefix) bool { return p.Addr() == ip }) {
				return l, ip, true
			}
		}
		return Link{}, ip, false
	}
	return Link{}, netip.Addr{}, false
}

type adder func(level, do, what string, args ...any)

// Bytes added by VXLAN.
const (
	overheadIPv4 = 50
	overheadIPv6 = 70
)

func (s *surroundings) overhead(ip netip.Addr) int {
	switch {
	case s.conf.NodeToNodeTransport != contivconf.VXLANTransport:
		return 0
	case ip.Is6():
		return overheadIPv6
	}
	return overheadIPv4
}

func (s *surroundings) judgeUplink(add adder, node *corev1.Node, facts Facts) {
	link, ip, found := uplink(node, facts)
	switch {
	case !ip.IsValid():
		add(Error, "set --node-ip of kubelet", "its Node object has no InternalIP")
	case !found:
		add(Error, "set --node-ip of kubelet to an address of the node", "no interface of the node has its InternalIP %s", ip)
	case !link.Up:
		add(Error, "ip link set dev "+link.Name+" up", "%s, which has the InternalIP %s, is down", link.Name, ip)
	case s.conf.MTUSize != 0 && int(s.conf.MTUSize) > link.MTU-s.overhead(ip):
		add(Error, fmt.Sprintf("set mtuSize to %d or less, or remove it", link.MTU-s.overhead(ip)),
			"mtuSize is %d, but packets to other nodes need %d bytes more, and the MTU of %s is %d", s.conf.MTUSize, s.overhead(ip), link.Name, link.MTU)
	}
}

// judgeMTUs compares the MTUs of the nodes.
func (s *surroundings) judgeMTUs(f *findings) {
	byMTU := map[int][]string{}
	for _, node := range s.nodes {
		if link, _, found := uplink(&node, s.facts[node.Name]); found {
			byMTU[link.MTU] = append(byMTU[link.MTU], node.Name)
		}
	}
	if len(byMTU) < 2 || s.conf.MTUSize != 0 {
		return
	}
	var texts []string
	for _, mtu := range slices.Sorted(maps.Keys(byMTU)) {
		texts = append(texts, fmt.Sprintf("%d on %s", mtu, strings.Join(byMTU[mtu], ", ")))
	}
	least := slices.Min(slices.Collect(maps.Keys(byMTU)))
	f.add(Warning, "", fmt.Sprintf("set mtuSize of contiv.conf to %d", least-overheadIPv4), "network interfaces of the nodes have different MTUs: %s: large packets between nodes may be lost", strings.Join(texts, "; "))
}

// serviceRanges returns the ranges of the cluster's ServiceCIDRs, and those of the option serviceCIDR
// that the agents use: of IP versions without ServiceCIDRs.
func (s *surroundings) serviceRanges() (ofCluster, configured []netip.Prefix) {
	for _, c := range s.cidrs {
		for _, text := range c.Spec.CIDRs {
			if network, err := kubeaddr.ParseNetwork(text); err == nil {
				ofCluster = append(ofCluster, network)
			}
		}
	}
	for _, network := range parsed(s.conf.IPAMConfig.ServiceCIDR) {
		sameVersion := func(p netip.Prefix) bool { return p.Addr().Is4() == network.Addr().Is4() }
		if !slices.ContainsFunc(ofCluster, sameVersion) {
			configured = append(configured, network)
		}
	}
	return ofCluster, configured
}

// parsed returns the valid networks of an option.
func parsed(value string) (networks []netip.Prefix) {
	for text := range strings.SplitSeq(value, ",") {
		if network, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil {
			networks = append(networks, network)
		}
	}
	return networks
}

// networks returns the configured networks of the cluster by option name.
func (s *surroundings) networks(onVPP bool) map[string]string {
	c := s.conf.IPAMConfig
	networks := map[string]string{}
	if _, services := s.serviceRanges(); len(services) > 0 {
		networks["serviceCIDR"] = strings.Trim(strings.ReplaceAll(fmt.Sprint(services), " ", ","), "[]")
	}
	if c.ContivCIDR != "" {
		networks["contivCIDR"] = c.ContivCIDR
		return networks
	}
	networks["podSubnetCIDR"] = c.PodSubnetCIDR
	if s.conf.NodeToNodeTransport == contivconf.VXLANTransport {
		networks["vxlanCIDR"] = c.VxlanCIDR
	}
	if onVPP {
		networks["vppHostSubnetCIDR"] = c.VPPHostSubnetCIDR
	}
	return networks
}

func (s *surroundings) judgeRoutes(add adder, node *corev1.Node, facts Facts) {
	services, _ := s.serviceRanges()
	for _, r := range facts.Routes {
		for _, network := range services {
			if r.To.Overlaps(network) {
				add(Error, "replace the ServiceCIDR", "a ServiceCIDR of the cluster is %s, but the node reaches %s through %s", network, r.To, r.Link)
			}
		}
	}
	networks := s.networks(node.Labels["contivpp.io/vswitch"] == "vpp")
	for _, option := range slices.Sorted(maps.Keys(networks)) {
		for _, network := range parsed(networks[option]) {
			for _, r := range facts.Routes {
				if r.To.Overlaps(network) {
					add(Error, "choose another network in contiv.conf", "ipamConfig.%s is %s, but the node reaches %s through %s", option, network, r.To, r.Link)
				}
			}
		}
	}
}

// memoryOfVPP is VPP's minimum of memory, in MiB.
const memoryOfVPP = 768

func judgeVPP(add adder, facts Facts) {
	if !facts.VHostNet {
		add(Warning, "modprobe vhost_net", "/dev/vhost-net is missing: VPP attaches pods by VETH pairs, which are slower and limited to 15")
	}
	if facts.MemoryMiB < 2*memoryOfVPP {
		add(Warning, "give the node more memory", "it has %d MiB of memory, and VPP needs %d", facts.MemoryMiB, memoryOfVPP)
	}
	if len(facts.Links) < 2 {
		add(Error, "add a network card for VPP, and set it in nodeConfig of contiv.conf", "VPP needs a network card in addition to the one with the InternalIP")
	}
	if !facts.VFIO {
		add(OK, "", "no VFIO: VPP can use network cards with AF_PACKET, but not with its own drivers (dpdkDevices)")
	}
}
