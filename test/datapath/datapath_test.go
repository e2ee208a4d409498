package datapath

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var binaries string

func TestMain(m *testing.M) {
	labtest.Main(func(dir string) (int, error) {
		binaries = dir
		return m.Run(), nil
	})
}

// columns are the measured values in the order of the table.
var columns = []string{"1 stream: Gb/s", "CPU s/Gb", "8 streams: Gb/s", "requests/s", "half-RTT p50 µs", "p99 µs", "connections/s"}

// measurements are made for each pair, in turn.
var measurements = []func(pair, time.Duration) (measured, error){pair.oneStream, pair.eightStreams, pair.requests, pair.connections}

func setting[T any](b *testing.B, name string, parse func(string) (T, error), full, short T) T {
	b.Helper()
	text := os.Getenv(name)
	switch {
	case text == "" && testing.Short():
		return short
	case text == "":
		return full
	}
	value, err := parse(text)
	if err != nil {
		b.Fatalf("%s: %v", name, err)
	}
	return value
}

// cluster is a lab with pods on two nodes.
type cluster struct {
	lab       *lab.Lab
	ipv6      bool
	client    lab.Pod
	near, far lab.Pod // servers on the client's node and on the other one
	mtu       int
}

func newCluster(b *testing.B, ipv6 bool) *cluster {
	b.Helper()
	name := "dp4"
	if ipv6 {
		name = "dp6"
	}
	c := &cluster{ipv6: ipv6, lab: labtest.Up(b, lab.Options{
		Name: name + "x" + strconv.Itoa(os.Getpid()), BinDir: binaries, DualStack: true,
	})}
	template := func(app string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}}
	}
	pods := labtest.AddPods(b, c.lab,
		lab.PodSpec{Name: "client", Node: "node1", Template: template("client")},
		lab.PodSpec{Name: "near", Node: "node1", Template: template("near")},
		lab.PodSpec{Name: "far", Node: "node2", Template: template("far")})
	c.client, c.near, c.far = pods[0], pods[1], pods[2]
	labtest.AwaitAddresses(b, c.lab)
	err := lab.InNetns(lab.NetnsPath(c.client.Netns), func() error {
		data, err := os.ReadFile("/sys/class/net/eth0/mtu")
		if err == nil {
			c.mtu, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *cluster) to(server lab.Pod, name string) pair {
	addr := server.Address
	if c.ipv6 {
		addr = server.Address6
	}
	return pair{name: name, client: c.client.Netns, server: server.Netns, listen: at(addr), dial: at(addr)}
}

// policies selects the client and the servers with n policies each, the last of which permits the
// traffic, and waits until they are enforced.
func (c *cluster) policies(b *testing.B, n int) {
	b.Helper()
	var text strings.Builder
	for i := range n {
		peer := fmt.Sprintf("10.77.%d.%d/32", i/250, i%250)
		peers := fmt.Sprintf("[{ipBlock: {cidr: %s}}]", peer)
		if i == n-1 {
			peers = "[{podSelector: {}}]"
		}
		fmt.Fprintf(&text, `---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: policy-%d}
spec:
  podSelector: {}
  policyTypes: [Ingress, Egress]
  ingress: [{from: %s, ports: [{port: %d}]}]
  egress: [{to: %[2]s, ports: [{port: %[3]d}]}]
`, i, peers, port)
	}
	if n == 0 {
		return
	}
	labtest.Apply(b, c.lab, text.String())
	b.Cleanup(func() { labtest.Delete(b, c.lab, text.String()) })
	closed := c.to(c.far, "")
	closed.listen = netip.AddrPortFrom(closed.listen.Addr(), port+1)
	closed.dial = closed.listen
	closed.serve(b)
	await.That(b, "the policies are enforced", func() error {
		conn, err := closed.connect(discard)
		if err != nil {
			return nil
		}
		conn.Close()
		return fmt.Errorf("port %d is open", port+1)
	})
}

// service makes a Service of the far pod. It returns its cluster IP and node port.
func (c *cluster) service(b *testing.B) (clusterIP netip.AddrPort, nodePort netip.AddrPort) {
	b.Helper()
	const number = 30777
	family, ip, node := "IPv4", "10.96.0.77", netip.MustParseAddr("192.168.16.2")
	if c.ipv6 {
		family, ip, node = "IPv6", "fd96::77", netip.MustParseAddr("2001:db8:16::2")
	}
	labtest.Apply(b, c.lab, fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: far}
spec:
  type: NodePort
  selector: {app: far}
  clusterIP: %q
  ipFamilies: [%s]
  ipFamilyPolicy: SingleStack
  ports: [{port: %d, nodePort: %d}]
`, ip, family, port, number))
	return at(netip.MustParseAddr(ip)), netip.AddrPortFrom(node, number)
}

// BenchmarkDatapath prints ratios of pods in a lab to networks made by hand.
func BenchmarkDatapath(b *testing.B) {
	for _, ipv6 := range []bool{false, true} {
		b.Run(map[bool]string{false: "IPv4", true: "IPv6"}[ipv6], func(b *testing.B) { benchDatapath(b, ipv6) })
	}
}

func benchDatapath(b *testing.B, ipv6 bool) {
	c := newCluster(b, ipv6)
	far, near := c.to(c.far, "pods, two nodes"), c.to(c.near, "pods, one node")
	far.serve(b)
	near.serve(b)
	vxlan, bridge, routed := handMadeVXLAN(b, ipv6, c.mtu), bridgedPair(b, ipv6, c.mtu), routedPair(b, ipv6, c.mtu)
	for _, p := range []pair{vxlan, bridge, routed} {
		p.serve(b)
	}
	clusterIP, nodePort := far, far
	clusterIP.name, nodePort.name = "cluster IP, two nodes", "node port, two nodes"
	clusterIP.dial, nodePort.dial = c.service(b)

	t := &table{}
	for _, n := range []int{0, 10, 1000} {
		b.Run(fmt.Sprintf("policies=%d", n), func(b *testing.B) {
			c.policies(b, n)
			b.Run("nodes=2", func(b *testing.B) { t.compare(b, n, vxlan, far) })
			b.Run("nodes=1", func(b *testing.B) { t.compare(b, n, bridge, near, routed) })
			if n > 0 {
				b.Run("service", func(b *testing.B) { t.compare(b, n, vxlan, clusterIP) })
				return // a node port hides the client, which the policies then deny
			}
			b.Run("service", func(b *testing.B) { t.compare(b, n, vxlan, clusterIP, nodePort) })
		})
	}
	b.Logf("%d rounds of %v\n%s", rounds(b), duration(b), t)
}

func rounds(b *testing.B) int { return setting(b, "DATAPATH_ROUNDS", strconv.Atoi, 6, 1) }

func duration(b *testing.B) time.Duration {
	return setting(b, "DATAPATH_TIME", time.ParseDuration, 2*time.Second, 50*time.Millisecond)
}

// table collects ratios by row and column.
type table struct{ rows [][]string }

// compare measures pairs and a reference in turns.
func (t *table) compare(b *testing.B, policies int, reference pair, pairs ...pair) {
	all := append([]pair{reference}, pairs...)
	found := map[string]map[string][]float64{} // by pair and column
	for _, p := range all {
		found[p.name] = map[string][]float64{}
		await.That(b, p.name+" is reachable", func() error {
			c, err := p.connect(discard)
			if err == nil {
				c.Close()
			}
			return err
		})
	}
	for b.Loop() {
		for round := range rounds(b) {
			for _, measure := range measurements {
				for i := range all {
					p := all[(i+round)%len(all)]
					values, err := measure(p, duration(b))
					if err != nil {
						b.Fatalf("%s: %v", p.name, err)
					}
					for column, value := range values {
						found[p.name][column] = append(found[p.name][column], value)
					}
				}
			}
		}
	}
	for _, p := range all {
		row := []string{p.name, strconv.Itoa(policies)}
		for _, column := range columns {
			values := found[p.name][column]
			if p.name == reference.name {
				row = append(row, fmt.Sprintf("%.4g", median(values)))
				continue
			}
			ratios := make([]float64, len(values))
			for i, v := range values {
				ratios[i] = v / found[reference.name][column][i]
			}
			row = append(row, fmt.Sprintf("%.2f (%.2f–%.2f)", median(ratios), slices.Min(ratios), slices.Max(ratios)))
			b.ReportMetric(median(ratios), strings.NewReplacer(" ", "-", ":", "", ",", "").Replace(p.name+"-"+column))
		}
		t.rows = append(t.rows, row)
	}
	b.ReportMetric(0, "ns/op")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func (t *table) String() string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(append([]string{"", "policies"}, columns...), "\t"))
	for _, row := range t.rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return cmp.Or(text.String(), "nothing measured")
}
