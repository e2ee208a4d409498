package ctl

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves a handler on a socket until stop is called, or the test ends.
func serve(t *testing.T, socket string, handler http.Handler) (stop func()) {
	t.Helper()
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, l, handler)
}

func serveOn(t *testing.T, l net.Listener, handler http.Handler) (stop func()) {
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	stop = sync.OnceFunc(func() {
		server.Close()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

// run executes a command line.
func run(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	t.Setenv(target.ConfigVariable, "")
	var o, e bytes.Buffer
	c := Command("contivctl", &o, &e)
	c.SetArgs(args)
	err = Execute(context.Background(), c)
	return o.String(), e.String(), err
}

func TestAgentsAreThoseOfFlagsFileOrTheDefault(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ctl.yaml")
	if err := os.WriteFile(file, []byte("agents: {b: 'http://b:9999', a: 'unix:///a.sock'}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		opts target.Options
		want string
	}{
		{"default", target.Options{}, "local=unix:///var/run/contiv/agent.sock"},
		{"file", target.Options{File: file}, "a=unix:///a.sock b=http://b:9999"},
		{"flags replace the file", target.Options{File: file, Agents: []string{"c=https://[::1]:9999"}}, "c=https://[::1]:9999"},
	} {
		agents, err := c.opts.Selected(context.Background(), nil)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var got []string
		for _, a := range agents {
			got = append(got, a.Name+"="+a.URL)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestUnknownCommands(t *testing.T) {
	for word, want := range map[string]string{"svc": `did you mean "services"?`, "stauts": `did you mean "status"?`, "frobnicate": "contivctl --help lists them"} {
		if _, _, err := run(t, word); ExitCode(err) != 3 || !strings.HasSuffix(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

func TestNodesAreFoundThroughEtcd(t *testing.T) {
	address := fmt.Sprintf("127.%d.%d.1", 64+os.Getpid()>>8%128, os.Getpid()%256)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "9999"))
	if err != nil {
		t.Fatal(err)
	}
	serveOn(t, l, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		rest.JSON(w, nodesync.NodesReport{ThisNode: "node1", Nodes: []nodesync.NodeReport{{ID: 1, Name: "node1"}}})
	}))
	server := etcdtest.Start(t)
	s, ctx := server.Store(), context.Background()

	_, _, err = run(t, "--etcd-endpoints", server.Endpoint(), "nodes")
	if err == nil || !strings.Contains(err.Error(), "etcd has no nodes: check that contiv-ksr runs") {
		t.Errorf("empty etcd: %v", err)
	}

	for name, value := range map[string]string{
		"node1": `{"name":"node1","addresses":[{"type":"NodeHostName","address":"x"},{"type":"NodeInternalIP","address":"` + address + `"}]}`,
		"node2": `{"name":"node2","from_the_future":1}`,
	} {
		if err := s.Put(ctx, models.KSRPrefix+"k8s/node/"+name, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	out, errOut, err := run(t, "--etcd-endpoints", server.Endpoint(), "nodes")
	if !errors.Is(err, ErrReported) || !strings.Contains(out, "1   node1") || !strings.Contains(out, "ready") {
		t.Errorf("%v\n%s", err, out)
	}
	if !strings.Contains(errOut, "node2: its Node object has no InternalIP: set the address of its agent with --agent") {
		t.Errorf("errors: %s", errOut)
	}

	for node, want := range map[string]string{"node1": "", "node3": `node "node3" is not known: did you mean "node1"?`} {
		_, _, err = run(t, "--etcd-endpoints", server.Endpoint(), "--node", node, "config", "get", "--via", "etcd")
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("values of %s in etcd: %v", node, err)
		}
	}

	server.Stop()
	_, _, err = run(t, "--etcd-endpoints", server.Endpoint(), "--timeout", "1h", "nodes")
	if err == nil || !strings.Contains(err.Error(), "read the nodes from etcd: "+server.Endpoint()+": connection refused: check that etcd is running") {
		t.Errorf("etcd is down: %v", err)
	}
}

func TestAnswersThatAreNoAnswers(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, contentType, body, want string }{
		{"html", "text/html", "<html>", "404 Not Found"},
		{"text", "text/plain", "nothing here", "404 Not Found: nothing here"},
	} {
		socket := filepath.Join(dir, c.name)
		serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			io.WriteString(w, c.body)
		}))
		if _, errOut, err := run(t, "--agent", "n=unix://"+socket, "pods"); !errors.Is(err, ErrReported) || errOut != "contivctl: n: "+c.want+"\n" {
			t.Errorf("%s: %v, %q", c.name, err, errOut)
		}
	}
	socket := filepath.Join(dir, "garbage")
	serve(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "garbage") }))
	if _, errOut, _ := run(t, "--agent", "n=unix://"+socket, "pods"); !strings.Contains(errOut, "check that agent and contivctl have the same version") {
		t.Errorf("garbage: %q", errOut)
	}
	hangs := filepath.Join(dir, "hangs")
	serve(t, hangs, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	if _, errOut, _ := run(t, "--agent", "n=unix://"+hangs, "--timeout", "50ms", "pods"); !strings.Contains(errOut, "no answer in time (see --timeout)") {
		t.Errorf("agent that hangs: %q", errOut)
	}
}

// The real scheduler's REST API meets the commands' expectations.
func TestWithRealScheduler(t *testing.T) {
	s := kvscheduler.New(kvscheduler.Options{})
	t.Cleanup(func() { s.Close() })
	created := make(map[string]*vpp_interfaces.Interface)
	err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "vpp-interface", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
		Create: func(_ context.Context, key string, v *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			if v.GetName() == "broken" {
				return m, errors.New("no such device")
			}
			created[key] = v
			return m, nil
		},
		Delete: func(_ context.Context, key string, _ *vpp_interfaces.Interface, _ kvscheduler.NoMetadata) error {
			delete(created, key)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	txn := s.NewTransaction()
	for _, name := range []string{"tap1", "broken"} {
		txn.Put(models.VPPInterfaceKey(name), &vpp_interfaces.Interface{Name: name})
	}
	if _, err := txn.Commit(context.Background(), kvscheduler.WithDescription("two interfaces")); err == nil {
		t.Fatal("the broken interface was created")
	}
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, inspect.Handler(s))

	plan := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(plan, []byte("config/vpp/v2/interfaces/tap2: {name: tap2}\nconfig/vpp/v2/interfaces/tap1: null\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	applied := filepath.Join(t.TempDir(), "values.yaml") // as config apply reads it
	if err := os.WriteFile(applied, []byte("model: vpp.interfaces\nvalue: {name: tap2}\n---\nkey: config/vpp/v2/interfaces/tap3\nvalue: {name: tap3}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		want []string
	}{
		{"plan -f " + applied, []string{"CREATE     CONFIGURED  config/vpp/v2/interfaces/tap2", "CREATE     CONFIGURED  config/vpp/v2/interfaces/tap3"}},
		{"plan -f " + filepath.Dir(applied), []string{"tap2", "tap3"}},
		{"txns", []string{"two interfaces", "OPS", "FAILED"}},
		{"txns 0", []string{"n: transaction #0 ", "two interfaces", "CREATE", "error: no such device"}},
		{"values", []string{"CONFIGURED  CREATE  config/vpp/v2/interfaces/tap1", "error: no such device"}},
		{"values --state configured", []string{"tap1"}},
		{"values config/vpp/v2/interfaces/tap1", []string{"CONFIGURED"}},
		{"dump", []string{"descriptors:\n    vpp-interface\n", "key prefixes:\n    config/vpp/v2/interfaces/\n"}},
		{"dump --view NB", []string{"name=tap1", "name=broken"}},
		{"explain broken", []string{"n: config/vpp/v2/interfaces/broken", "no such device", "vpp-interface"}},
		{"explain tap1", []string{"CONFIGURED", "exists as requested", "CREATE in transaction #0", "name=tap1"}},
		{"timeline broken", []string{"CREATE  name=broken  error: no such device"}},
		{"diff --from -1h", []string{"new", "config/vpp/v2/interfaces/tap1"}},
		{"diff --from txn:0", []string{"no difference on n"}},
		{"graph tap1", []string{`label="vpp-interface"`, `"config/vpp/v2/interfaces/tap1"`}},
		{"graph --at txn:0", []string{"color=gold", "broken"}},
		{"txns 0 -o diagram", []string{"sequenceDiagram", "S->>D1: Create config/vpp/v2/interfaces/broken"}},
		{"plan -f " + plan, []string{"DELETE     REMOVED     config/vpp/v2/interfaces/tap1", "CREATE     CONFIGURED  config/vpp/v2/interfaces/tap2", "name=tap2"}},
		{"dump --view cached --descriptor vpp-interface config/vpp/v2/interfaces/tap", []string{"n: 1 value\n"}},
		{"dump --view NB tap1", []string{"n: 1 value\n", "CONFIGURED", "name=tap1"}},
	} {
		out, errOut, err := run(t, append([]string{"--agent", "n=unix://" + socket}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Errorf("%s: %v %s", c.args, err, errOut)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("%s: %q is missing in\n%s", c.args, want, out)
			}
		}
	}
	gone := s.NewTransaction()
	gone.Delete(models.VPPInterfaceKey("broken"))
	if _, err := gone.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := run(t, "--agent", "n=unix://"+socket, "explain", "broken"); err == nil || !strings.Contains(err.Error(), "was deleted: `contivctl timeline broken` shows") {
		t.Errorf("explanation of a value that is gone: %v", err)
	}
	if out, _, err := run(t, "--agent", "n=unix://"+socket, "timeline", "broken"); err != nil || !strings.Contains(out, "1    gone") {
		t.Errorf("timeline of a value that is gone: %v %s", err, out)
	}
	_, errOut, err := run(t, "--agent", "n=unix://"+socket, "dump", "--descriptor", "vpp-interfac")
	if ExitCode(err) != exitUsage || errOut != "" || !strings.Contains(err.Error(), `did you mean "vpp-interface"?`) {
		t.Errorf("wrong descriptor: %v %s", err, errOut)
	}
	_, _, err = run(t, "--agent", "n=unix://"+socket, "values", "config/vpp/v2/interfaces/tap7")
	if err == nil || !strings.Contains(err.Error(), `did you mean "config/vpp/v2/interfaces/tap1"?`) {
		t.Errorf("wrong key: %v", err)
	}
}

// eventAgent is an agent with a history of events.
type eventAgent struct {
	mu     sync.Mutex
	events []*controller.EventRecord
	now    time.Time
}

// happen adds n events, numbered from the given number.
func (a *eventAgent) happen(from uint64, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range n {
		a.now = a.now.Add(time.Second)
		a.events = append(a.events, &controller.EventRecord{SeqNum: from + uint64(i), Enqueued: a.now, Name: fmt.Sprintf("event %d", from+uint64(i))})
	}
}

// restart restarts the agent with n events.
func (a *eventAgent) restart(n int) {
	a.mu.Lock()
	a.events = nil
	a.mu.Unlock()
	a.happen(0, n)
}

func (a *eventAgent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	q := r.URL.Query()
	out := a.events
	if q.Has("from") {
		from, _ := strconv.ParseUint(q.Get("from"), 10, 64)
		to, _ := strconv.ParseUint(q.Get("to"), 10, 64)
		out = slices.DeleteFunc(slices.Clone(out), func(e *controller.EventRecord) bool { return e.SeqNum < from || e.SeqNum > to })
	} else if last, _ := strconv.Atoi(q.Get("last")); last < len(out) {
		out = out[len(out)-last:]
	}
	rest.JSON(w, out)
}

func TestFollowedEvents(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	agent := &eventAgent{}
	agent.happen(0, 5)
	stop := serve(t, socket, agent)

	out, outW := io.Pipe()
	errOut, errW := io.Pipe()
	c := &cli{name: "contivctl", out: outW, errOut: errW, format: asTable, poll: time.Millisecond,
		targets: target.Options{Agents: []string{"n=unix://" + socket}, Timeout: time.Second}}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.followEvents(ctx, nil, 2) }()
	lines, errLines := bufio.NewScanner(out), bufio.NewScanner(errOut)
	expect := func(s *bufio.Scanner, want string) {
		t.Helper()
		if !s.Scan() || !strings.HasSuffix(s.Text(), want) {
			t.Fatalf("got %q, want a line that ends in %q", s.Text(), want)
		}
	}

	expect(lines, "EVENT")
	expect(lines, "event 3")
	expect(lines, "event 4")
	agent.happen(5, 1)
	expect(lines, "event 5")
	agent.happen(6, 250) // more than one request returns
	for i := 6; i < 256; i++ {
		expect(lines, fmt.Sprintf("event %d", i))
	}

	// One line each for the end and the start, however often the agent is asked meanwhile.
	for _, n := range []int{2, 5} {
		stop()
		expect(errLines, "does the agent run?")
		agent.restart(n)
		stop = serve(t, socket, agent)
		expect(errLines, "n: answers again")
		for i := range n {
			expect(lines, fmt.Sprintf("event %d", i))
		}
	}

	cancel()
	go io.Copy(io.Discard, out)
	go io.Copy(io.Discard, errOut)
	if err := <-done; err != nil {
		t.Error(err)
	}
	outW.Close()
	errW.Close()
}

func TestTableFitsAndCutsNothingOff(t *testing.T) {
	var b strings.Builder
	table := printer{Writer: &b}.Table("A", "TEXT")
	table.Add("x", strings.Repeat("word ", 40))
	table.Add("ü", strings.Repeat("x", 130))
	table.Add("", "")
	table.Print()
	words := strings.Count(b.String(), "word")
	for _, line := range strings.Split(b.String(), "\n") {
		if len(line) > text.DefaultWidth && !strings.Contains(line, "xxx") {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if words != 40 || !strings.Contains(b.String(), strings.Repeat("x", 130)) || !strings.HasSuffix(b.String(), "\n-\n") {
		t.Error(b.String())
	}
}

func TestTimeoutsAreAboveZero(t *testing.T) {
	for _, timeout := range []string{"0", "-1s"} {
		if _, _, err := run(t, "--timeout", timeout, "nodes"); err == nil || !strings.Contains(err.Error(), "use a duration above 0") {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}

func TestVersion(t *testing.T) {
	if out, _, err := run(t, "version"); err != nil || !strings.Contains(out, " version "+version.Version) {
		t.Errorf("%q, %v", out, err)
	}
}

// Differences and mistakes have separate exit codes.
func TestExitCodeOfConfigDiff(t *testing.T) {
	if _, _, err := run(t, "config", "diff", "-f", "/does/not/exist"); ExitCode(err) != 2 {
		t.Errorf("no such file: exit code %d, %v", ExitCode(err), err)
	}
}

// Invalid names are refused without a request, and the error shows the form.
func TestNamesOfServicesAndPolicies(t *testing.T) {
	for _, args := range [][]string{{"services", ""}, {"services", "a/b/c"}, {"policies", "a/"}} {
		_, _, err := run(t, append([]string{"--agent", "node1=unix://" + t.TempDir() + "/none"}, args...)...)
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q is not a name of a ", args[1])) || !strings.Contains(err.Error(), "use NAME or NAMESPACE/NAME, such as default/web") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// A usage error is no verdict on the network.
func TestExitCodeOfMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{
		{"frobnicate"}, {"--frobnicate", "status"}, {"status", "--frobnicate"}, {"status", "--timeout", "5"}, {"status", "--node"}, {"version", "x"}, {"why", "web"},
		{"status", "-o", "xml"}, {"status", "-o", "jsonpath"}, {"status", "-o", "jsonpath={.foo}"}, {"status", "-o", "jsonpath={"}, {"status", "node9"}, {"why", "web", "db", "0"},
		{"events", "node9"}, {"values", "--node", "node9"}, {"pods", "node1", "--node", "node2"}, {"interfaces", "node9"},
		{"values", "--state", "GONE"}, {"txns", "--since", "soon"}, {"timeline", "key", "--since", "+5m"}, {"graph", "key", "--at", "7"}, {"diff", "--from", "txn:x"}, {"dump", "--view", "XX"},
		{"services", ""}, {"services", "a/b/c"}, {"services", "/b"}, {"policies", "a/b/c"}, {"policies", ""}, {"explain", "svc/a/b/c"}, {"txns", "x"}, {"events", "--seq", "x"}, {"events", "--seq", "1.x"},
		{"services", "-n", "a", "b/c"}, {"policies", "-n", "a", "b/c"}, {"values", "-n", "a", "svc/b/c"}, {"values", "-n", "a", "b/c"}, {"explain", "-n", "a", "config/vpp/v2/x"},
		{"values", "-n", "a"}, {"graph", "-n", "a"}, {"config", "get", "-n", "a"}, {"config", "get", "-n", "a", "x", "--via", "etcd"},
	} {
		args = append([]string{"--agent", "node1=unix://" + dir + "/none"}, args...)
		if _, _, err := run(t, args...); ExitCode(err) != exitUsage {
			t.Errorf("%q: exit code %d, %v", args[2:], ExitCode(err), err)
		}
	}
}
