package integration

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/lab"
	"github.com/contiv/contiv/test/labtest"
	"golang.org/x/sys/unix"
)

// Several sandboxes of a pod are added while the agent cannot serve calls. It then serves them in
// the order of arrival, so that the newest sandbox holds the identity.
func (l *identityLab) testOrderOfArrival(t *testing.T) {
	for _, c := range []struct {
		name, pod string
		// away prevents the agent from serving calls, which wait at its socket until back.
		away, back func(*testing.T)
	}{
		{"a frozen agent", "frozen", func(t *testing.T) { l.signalAgent(t, unix.SIGSTOP) }, func(t *testing.T) { l.signalAgent(t, unix.SIGCONT) }},
		{"a starting agent", "starting", l.startAgentWithoutEtcd, func(t *testing.T) {
			if err := l.StartEtcd(context.WithoutCancel(t.Context())); err != nil {
				t.Error(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) { l.testWaitingSandboxes(t, c.pod, c.away, c.back) })
	}
}

const (
	// arrivalNode is the node that the waiting sandboxes are on.
	arrivalNode      = "node2"
	waitingClusterIP = "10.96.0.43"
)

func (l *identityLab) testWaitingSandboxes(t *testing.T, pod string, away, back func(*testing.T)) {
	apply := func(text string) (remove func()) {
		labtest.Apply(t, l.Lab, text)
		return func() { labtest.Delete(t, l.Lab, text) }
	}
	defer apply(fmt.Sprintf(`apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: from-waiting}
spec:
  podSelector: {matchLabels: {app: server}}
  ingress: [{from: [{podSelector: {matchLabels: {app: %[1]s}}}]}]
`, pod))()
	var sandboxes []*sandbox
	for i := range 4 {
		sandboxes = append(sandboxes, l.sandbox(t, arrivalNode, pod, i+1, ""))
	}
	newest := sandboxes[len(sandboxes)-1]

	away(t)
	served := false
	defer func() {
		if !served {
			back(t)
		}
	}()
	ended := make(chan error, len(sandboxes))
	before := l.waitingCalls(t)
	for i, s := range sandboxes {
		go func() {
			err := s.add(context.WithoutCancel(t.Context()))
			if err != nil {
				err = fmt.Errorf("ADD of %s: %w", s.ContainerID, err)
			}
			ended <- err
		}()
		await.That(t, "the ADD of "+s.ContainerID+" waits for the agent", func() error {
			if n := l.waitingCalls(t) - before; n != i+1 {
				return fmt.Errorf("%d calls wait, want %d", n, i+1)
			}
			return nil
		})
	}
	select {
	case err := <-ended:
		t.Fatalf("an ADD has ended while the agent is away: %v", err)
	default:
	}
	back(t)
	served = true
	for range sandboxes {
		if err := <-ended; err != nil { // an ADD served after that of a newer sandbox is refused
			t.Error(err)
		}
	}
	if t.Failed() {
		return
	}

	address := newest.endpoint().Address
	l.keep(t, pod, object(pod, "u-"+pod, arrivalNode, address.String()))
	defer apply(fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec: {clusterIP: %[2]s, clusterIPs: [%[2]s], ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [%[3]s], conditions: {ready: true}, targetRef: {kind: Pod, namespace: default, name: %[1]s}}]
`, pod, waitingClusterIP, address))()
	labtest.TellName(t, newest.netns, newest.ContainerID, 8080)
	l.asks(t, newest, true)
	for what, to := range map[string]netip.AddrPort{
		"the pod's address": netip.AddrPortFrom(address, 8080),
		"the service":       netip.AddrPortFrom(netip.MustParseAddr(waitingClusterIP), 80),
	} {
		await.That(t, what+" leads to the newest sandbox", func() error {
			told, err := labtest.AskName(l.far.Netns, "tcp", to)
			if err == nil && told.Name != newest.ContainerID {
				err = fmt.Errorf("%s answers", told.Name)
			}
			return err
		})
	}
	for _, older := range sandboxes[:len(sandboxes)-1] {
		if _, err := l.host(older.netns).Ask(l.server.Address.String(), l.port); err == nil {
			t.Errorf("%s reaches the server, although %s is newer", older.ContainerID, newest.ContainerID)
		}
		older.mustFail(t, "older than "+newest.ContainerID)
		if err := older.del(); err != nil {
			t.Errorf("DEL of %s: %v", older.ContainerID, err)
		}
	}
	if err := newest.check(t); err != nil {
		t.Errorf("CHECK of the newest sandbox: %v", err)
	}
	l.asks(t, newest, true)
}

func (l *identityLab) agentProcess(t *testing.T) lab.Process {
	t.Helper()
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	return st.Processes["agent/"+arrivalNode]
}

func (l *identityLab) signalAgent(t *testing.T, signal unix.Signal) {
	t.Helper()
	if err := unix.Kill(l.agentProcess(t).PID, signal); err != nil {
		t.Error(err)
	}
}

// startAgentWithoutEtcd restarts the agent without etcd. It accepts calls and lets them wait until
// its first resync, for which it waits for etcd.
func (l *identityLab) startAgentWithoutEtcd(t *testing.T) {
	if err := l.StopAgent(t.Context(), arrivalNode); err != nil {
		t.Fatal(err)
	}
	if err := l.StopEtcd(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := l.Path("nodes", arrivalNode, "controller.conf")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.WriteFile(file, config, 0o600); err != nil {
			t.Error(err)
		}
	})
	if err := os.WriteFile(file, append(config, "delayLocalResync: 5m\nstartupResyncDeadline: 10m\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, started := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- l.StartAgent(ctx, arrivalNode) }()
	await.That(t, "the agent accepts calls", func() error {
		select {
		case err := <-ended:
			t.Fatal(err)
		default:
		}
		conn, err := net.Dial("unix", l.CNISocket(arrivalNode))
		if err == nil {
			conn.Close()
		}
		return err
	})
	started() // StartAgent would wait until the agent is ready
	<-ended
	if !l.agentProcess(t).Alive() {
		t.Fatal("the agent has ended")
	}
}

// waitingCalls returns the number of connections to the agent's CNI socket, accepted or not.
func (l *identityLab) waitingCalls(t *testing.T) (n int) {
	t.Helper()
	f, err := os.Open(fmt.Sprintf("/proc/%d/net/unix", l.agentProcess(t).PID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// Num RefCount Protocol Flags Type State Inode Path
	const state, path, listening = 5, 7, "01"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); len(fields) > path && fields[path] == l.CNISocket(arrivalNode) && fields[state] != listening {
			n++
		}
	}
	return n
}
