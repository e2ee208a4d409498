package servicebench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/endpointslice"
	"github.com/contiv/contiv/api/contiv/node"
	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/e2e"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"github.com/vishvananda/netlink"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

const (
	nodeIP      = "192.168.16.1"
	serviceCIDR = "10.96.0.0/12"
	clientIP    = "10.1.1.2"
	serverPort  = 8080
	streamPort  = 8081
	echoPort    = 8082
	etcdAddress = "127.0.0.1:12379"
	apiAddress  = "127.0.0.1:8001"
)

func endpoints() (list []string) {
	for n := range 10 {
		list = append(list, fmt.Sprintf("10.1.1.%d", 10+n))
	}
	return list
}

// side is a node with one of the two service proxies.
type side struct {
	b     testing.TB
	name  string
	netns string
	dir   string
	// command starts the proxy; put passes services to it.
	command []string
	put     func(...testService)
	running *exec.Cmd
	tables  string // name of the proxy's tables
	socket  string // socket of the REST API with transactions, if it has one
}

func (s *side) pod(name string) string { return s.netns + "-" + name }

func run(b testing.TB, script string) {
	b.Helper()
	if out, err := exec.Command("sh", "-ec", script).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v: %s", script, err, out)
	}
}

// newSide makes the node with its two pods.
//
//	client 10.1.1.2 ──veth── node ──veth── 10.1.1.10 to 10.1.1.19 server
func newSide(b testing.TB, name string) *side {
	b.Helper()
	s := &side{b: b, name: name, netns: fmt.Sprintf("sb%d-%s", os.Getpid(), name), dir: b.TempDir()}
	for _, ns := range []string{s.netns, s.pod("client"), s.pod("server")} {
		run(b, "ip netns add "+ns+"; ip -n "+ns+" link set lo up")
		b.Cleanup(func() { run(b, "ip netns del "+ns) })
	}
	run(b, "ip -n "+s.netns+" link add eth0 type veth peer name wire; ip -n "+s.netns+" address add "+nodeIP+"/24 dev eth0; ip -n "+s.netns+" link set eth0 up; ip -n "+s.netns+" link set wire up")
	run(b, "ip netns exec "+s.netns+" sysctl -qw net.ipv4.ip_forward=1")
	for pod, addresses := range map[string][]string{"client": {clientIP}, "server": endpoints()} {
		ns := s.pod(pod)
		run(b, fmt.Sprintf("ip -n %s link add eth0 type veth peer name %s netns %s; ip -n %s link set eth0 up; ip -n %s link set %s up; ip -n %s address add 169.254.1.1/32 dev %s",
			ns, pod, s.netns, ns, s.netns, pod, s.netns, pod))
		for _, a := range addresses {
			run(b, fmt.Sprintf("ip -n %s address add %s/32 dev eth0; ip -n %s route add %s/32 dev %s", ns, a, s.netns, a, pod))
		}
		run(b, fmt.Sprintf("ip -n %s route add 169.254.1.1 dev eth0; ip -n %s route add default via 169.254.1.1 src %s", ns, ns, addresses[0]))
	}
	s.serve()
	return s
}

func in(netns string, fn func() error) error { return lab.InNetns(lab.NetnsPath(netns), fn) }

func (s *side) listen(netns, address string) net.Listener {
	var l net.Listener
	if err := in(netns, func() (err error) { l, err = net.Listen("tcp", address); return err }); err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { l.Close() })
	return l
}

// serve answers clients with the reached endpoint and accepts streams.
func (s *side) serve() {
	for port, serve := range map[int]func(net.Conn){
		serverPort: func(c net.Conn) {
			address, _, _ := net.SplitHostPort(c.LocalAddr().String())
			_, _ = io.WriteString(c, address)
		},
		streamPort: func(c net.Conn) { _, _ = io.Copy(io.Discard, c) },
		echoPort:   func(c net.Conn) { _, _ = io.Copy(c, c) },
	} {
		l := s.listen(s.pod("server"), ":"+strconv.Itoa(port))
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { serve(c); c.Close() }()
			}
		}()
	}
}

func (s *side) start() {
	s.b.Helper()
	s.running = s.background(s.command...)
}

func (s *side) background(command ...string) *exec.Cmd {
	s.b.Helper()
	cmd := exec.Command("ip", append([]string{"netns", "exec", s.netns}, command...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	file, err := os.OpenFile(filepath.Join(s.dir, filepath.Base(command[0])+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.b.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		s.b.Fatal(err)
	}
	s.b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func (s *side) stop() {
	_ = s.running.Process.Kill()
	_ = s.running.Wait()
}

func (s *side) clean() {
	for _, family := range []string{"ip", "ip6"} {
		_ = exec.Command("ip", "netns", "exec", s.netns, "nft", "delete", "table", family, s.tables).Run() // some may not exist
	}
}

// memory returns the current and peak memory of the proxy in MiB.
func (s *side) memory() (now, most float64) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.running.Process.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var kib float64
		if _, err := fmt.Sscanf(line, "VmRSS: %f kB", &kib); err == nil {
			now = kib / 1024
		}
		if _, err := fmt.Sscanf(line, "VmHWM: %f kB", &kib); err == nil {
			most = kib / 1024
		}
	}
	return now, most
}

// tableMemory returns the kernel memory of the stopped proxy's tables in MiB, measured by removing
// them.
func (s *side) tableMemory() float64 {
	s.b.Helper()
	s.forgetConnections()
	before := settledKernelMemory(s.b)
	s.clean()
	return before - settledKernelMemory(s.b)
}

// settledKernelMemory returns the kernel's memory in MiB after deferred frees.
func settledKernelMemory(b testing.TB) (now float64) {
	b.Helper()
	now = math.Inf(1)
	for range 100 {
		last := now
		data, err := os.ReadFile("/proc/meminfo")
		if err != nil {
			b.Fatal(err)
		}
		now = 0
		for line := range strings.Lines(string(data)) {
			name, rest, _ := strings.Cut(line, ":")
			var kib float64
			if _, err := fmt.Sscan(rest, &kib); err == nil && (name == "SUnreclaim" || name == "VmallocUsed" || name == "Percpu") {
				now += kib / 1024
			}
		}
		if math.Abs(now-last) < 0.1 {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	return now
}

// ask connects from the client's pod. If read is set, it returns the endpoint.
func (s *side) ask(address string, read bool) (endpoint string, err error) {
	err = in(s.pod("client"), func() error {
		c, err := net.DialTimeout("tcp", address, 50*time.Millisecond)
		if err != nil {
			return err
		}
		defer c.Close()
		if !read {
			return nil
		}
		_ = c.SetDeadline(time.Now().Add(time.Second))
		data, err := io.ReadAll(c)
		endpoint = string(data)
		return err
	})
	return endpoint, err
}

// await returns the time until connections to the service reach the endpoint, or any endpoint if it
// is "".
func (s *side) await(service testService, endpoint string) time.Duration {
	s.b.Helper()
	const most = 8 * time.Minute
	for start := time.Now(); ; {
		got, err := s.ask(service.ip+":80", endpoint != "")
		if err == nil && (endpoint == "" || got == endpoint) {
			return time.Since(start)
		}
		if time.Since(start) > most {
			log, _ := os.ReadFile(filepath.Join(s.dir, filepath.Base(s.command[0])+".log"))
			s.b.Fatalf("%s: service %s does not lead to %q within %v: %q, %v\n%s", s.name, service.name, endpoint, most, got, err, log[max(0, len(log)-4000):])
		}
		time.Sleep(time.Millisecond)
	}
}

// rate holds the connections per second and the CPU time of each connection in µs. The CPU time
// covers the client's system calls, which include the packets' path to the server, and no other
// load of the machine.
type rate struct{ perSecond, micros float64 }

// connections opens connections to a service sequentially from each of two clients.
func (s *side) connections(service testService, during time.Duration) rate {
	s.b.Helper()
	const clients = 2
	counts := make(chan int, clients)
	used := make(chan time.Duration, clients)
	errs := make(chan error, clients)
	start := time.Now()
	for range clients {
		go func() {
			n := 0
			errs <- in(s.pod("client"), func() error {
				before := threadTime()
				defer func() { used <- threadTime() - before }()
				for time.Since(start) < during {
					c, err := net.Dial("tcp", service.ip+":80")
					if err != nil {
						return err
					}
					_ = c.(*net.TCPConn).SetLinger(0)
					c.Close()
					n++
				}
				return nil
			})
			counts <- n
		}()
	}
	total, cpu := 0, time.Duration(0)
	for range clients {
		if err := <-errs; err != nil {
			s.b.Fatalf("%s: %v", s.name, err)
		}
		total += <-counts
		cpu += <-used
	}
	return rate{float64(total) / time.Since(start).Seconds(), float64(cpu.Microseconds()) / float64(total)}
}

// forgetConnections clears the conntrack table. It would otherwise grow between measurements, and
// earlier connections would occupy ports.
func (s *side) forgetConnections() {
	s.b.Helper()
	if err := in(s.netns, func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) }); err != nil {
		s.b.Fatal(err)
	}
}

type connections []net.Conn

func (s *side) open(service testService, count int) (list connections) {
	s.b.Helper()
	for range count {
		err := in(s.pod("client"), func() error {
			c, err := net.DialTimeout("tcp", service.ip+":80", time.Second)
			if err == nil {
				list = append(list, c)
				s.b.Cleanup(func() { c.Close() })
			}
			return err
		})
		if err != nil {
			s.b.Fatalf("%s: %v", s.name, err)
		}
	}
	if n := list.lost(); n > 0 {
		s.b.Fatalf("%s: %d of %d connections echo nothing", s.name, n, count)
	}
	return list
}

// lost counts connections without an echo.
func (l connections) lost() (n int) {
	for _, c := range l {
		_ = c.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := c.Write([]byte{1}); err != nil {
			n++
		} else if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			n++
		}
	}
	return n
}

type restarted struct{ seconds, lost, operations float64 }

func (s *side) restart(service testService) (r restarted) {
	s.b.Helper()
	echo := testService{"echo", "10.96.0.12", endpoints(), echoPort}
	s.put(echo)
	s.await(echo, "")
	open := s.open(echo, 200)
	s.stop()
	start := time.Now()
	s.start()
	s.put(service)
	s.await(service, "")
	r = restarted{seconds: time.Since(start).Seconds(), lost: float64(open.lost()), operations: s.operations(start, service)}
	for _, c := range open {
		c.Close()
	}
	return r
}

// operations counts the operations of the proxy's transactions since a time, except operations for a service. It returns NaN if the proxy has no transactions.
func (s *side) operations(since time.Time, but testService) float64 {
	s.b.Helper()
	if s.socket == "" {
		return math.NaN()
	}
	txns, err := lab.NewREST(s.socket).Transactions(s.b.Context(), since)
	if err != nil {
		s.b.Fatal(err)
	}
	ops := slices.DeleteFunc(lab.Operations(txns...), func(op kvscheduler.RecordedOp) bool { return strings.HasSuffix(op.Key, "/"+but.name) })
	return float64(len(ops))
}

func threadTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_THREAD, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// stream returns the throughput to an address in MB/s.
func (s *side) stream(address string, during time.Duration) float64 {
	s.b.Helper()
	sent, took := 0, time.Duration(0)
	err := in(s.pod("client"), func() error {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		defer c.Close()
		data, start := make([]byte, 256<<10), time.Now()
		for time.Since(start) < during {
			n, err := c.Write(data)
			if err != nil {
				return err
			}
			sent += n
		}
		took = time.Since(start)
		return nil
	})
	if err != nil {
		s.b.Fatal(err)
	}
	return float64(sent) / 1e6 / took.Seconds()
}

func buildContiv(b testing.TB) (binaries string) {
	b.Helper()
	binaries = b.TempDir()
	if err := labtest.Build("-trimpath", "-o", binaries+"/", "./cmd/contiv-agent", "./cmd/contiv-etcd"); err != nil {
		b.Fatal(err)
	}
	return binaries
}

// newContiv makes a node with an agent and its etcd.
func newContiv(b testing.TB, binaries, name string) *side {
	b.Helper()
	s := newSide(b, name)
	write := func(name, content string) string {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			b.Fatal(err)
		}
		return path
	}
	s.background(filepath.Join(binaries, "contiv-etcd"), "--data-dir", filepath.Join(s.dir, "etcd"), "--listen-client", "http://"+etcdAddress)
	s.command = []string{filepath.Join(binaries, "contiv-agent"), "--node-name", "node1", "--etcd-endpoints", "http://" + etcdAddress, "--run-dir", filepath.Join(s.dir, "run"),
		"--bolt", filepath.Join(s.dir, "bolt.db"), "--contiv-config", write("contiv.conf", ""), "--service-config", write("service.conf", "services: vswitch\n"),
		"--controller-config", write("controller.conf", ""), "--log-level", "WARN", "--probe-interval", "0"}
	s.tables, s.socket = "contiv", filepath.Join(s.dir, "run", "agent.sock")
	db, err := clientv3.New(clientv3.Config{Endpoints: []string{"http://" + etcdAddress}, DialTimeout: time.Minute, DialOptions: []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, _ string) (c net.Conn, err error) {
			err = in(s.netns, func() error { c, err = (&net.Dialer{}).DialContext(ctx, "tcp", etcdAddress); return err })
			return c, err
		}),
	}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { db.Close() })
	put := func(values map[string]proto.Message) {
		var ops []clientv3.Op
		for key, value := range values {
			data, err := kubestate.Marshal(value)
			if err != nil {
				b.Fatal(err)
			}
			ops = append(ops, clientv3.OpPut(models.KSRPrefix+key, string(data)))
		}
		if _, err := db.Txn(b.Context()).Then(ops...).Commit(); err != nil {
			b.Fatal(err)
		}
	}
	put(map[string]proto.Message{kubestate.NodeKey("node1"): &node.Node{Name: "node1", Addresses: []*node.NodeAddress{{Type: node.NodeAddress_NodeInternalIP, Address: nodeIP}}}})
	if _, err := db.Put(b.Context(), models.KSRPrefix+kubestate.ReflectedKey, "{}"); err != nil {
		b.Fatal(err)
	}
	s.put = func(services ...testService) {
		values := map[string]proto.Message{}
		for i, t := range services {
			values[kubestate.ServiceKey(t.name, "default")], values[kubestate.EndpointSliceKey(t.name+"-1", "default")] = reflected(t)
			if len(values) >= 100 || i == len(services)-1 {
				put(values)
				clear(values)
			}
		}
	}
	return s
}

// reflected converts a service to KSR's objects.
func reflected(s testService) (*k8s.Service, *endpointslice.EndpointSlice) {
	slice := &endpointslice.EndpointSlice{
		Name: s.name + "-1", Namespace: "default", Service: s.name, AddressType: endpointslice.EndpointSlice_IPv4,
		Ports: []*endpointslice.EndpointSlice_Port{{Protocol: "TCP", Port: s.port}},
	}
	for _, ip := range s.endpoints {
		slice.Endpoints = append(slice.Endpoints, &endpointslice.EndpointSlice_Endpoint{Addresses: []string{ip}, NodeName: "node1", Ready: true, Serving: true})
	}
	return &k8s.Service{
		Name: s.name, Namespace: "default", ServiceType: "ClusterIP", ClusterIp: s.ip, ClusterIps: []string{s.ip}, IpFamilies: []string{"IPv4"},
		Port: []*k8s.Service_ServicePort{{Protocol: "TCP", Port: 80}},
	}, slice
}

// kubeProxyVariable is the environment variable with the path of kube-proxy, if it differs from the path of make e2e.
const kubeProxyVariable = "CONTIV_KUBE_PROXY"

// newKubeProxy makes a node with kube-proxy and its API server.
func newKubeProxy(b testing.TB, name string) *side {
	b.Helper()
	program := os.Getenv(kubeProxyVariable)
	if cache, err := e2e.DefaultCache(); program == "" && err == nil {
		program = filepath.Join(e2e.Places{Source: labtest.Root, Cache: cache}.KubernetesDir(), "kube-proxy")
	}
	if _, err := os.Stat(program); err != nil {
		b.Skipf("there is no kube-proxy to compare with: run make e2e, which builds it, or name the program in %s: %v", kubeProxyVariable, err)
	}
	s := newSide(b, name)
	a := newAPI()
	server := &http.Server{Handler: a}
	l := s.listen(s.netns, apiAddress)
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { server.Close() })
	config := fmt.Sprintf(`{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables", "hostnameOverride": "node1",
"clientConnection": {"kubeconfig": %q, "contentType": "application/json"}, "detectLocalMode": "ClusterCIDR", "clusterCIDR": "10.1.0.0/16",
"healthzBindAddress": "127.0.0.1:10256", "metricsBindAddress": "127.0.0.1:10249",
"conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}}`, filepath.Join(s.dir, "kubeconfig"))
	err := errors.Join(os.WriteFile(filepath.Join(s.dir, "config"), []byte(config), 0o600), os.WriteFile(filepath.Join(s.dir, "kubeconfig"), []byte(`{"apiVersion": "v1", "kind": "Config",
"clusters": [{"name": "c", "cluster": {"server": "http://`+apiAddress+`"}}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {}}], "current-context": "c"}`), 0o600))
	if err != nil {
		b.Fatal(err)
	}
	s.command = []string{program, "--config=" + filepath.Join(s.dir, "config")}
	s.tables = "kube-proxy"
	s.put = func(services ...testService) {
		for _, t := range services {
			a.put(kubeService(t))
			a.put(kubeSlice(t))
		}
	}
	return s
}
