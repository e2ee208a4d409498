package ctl

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/models"
	"github.com/google/go-cmp/cmp"
)

// canary is a secret that must not appear in a history or a report.
const canary = "c2VjcmV0LWNhbmFyeS1zZWNyZXQtY2FuYXJ5LTEyMzQ="

// past is an agent with a scheduler and a history.
type past struct {
	t         *testing.T
	recorder  *history.Recorder
	scheduler *kvscheduler.Scheduler
	events    uint64
}

func startPast(t *testing.T, dir string) *past {
	t.Helper()
	p := &past{t: t}
	p.recorder = history.Open(history.Options{Dir: dir, Bytes: 1 << 20, Age: time.Hour, Node: "n", Version: "v1", Log: slog.New(slog.DiscardHandler)})
	p.scheduler = kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler), Recorder: p.recorder.Transaction})
	err := kvscheduler.Register(p.scheduler, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "vpp-interface", NB: true, Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()},
		DerivedValues: func(key string, v *vpp_interfaces.Interface) (derived []kvscheduler.KeyValue) {
			if v.GetMtu() > 0 {
				derived = append(derived, kvscheduler.KeyValue{Key: key + "/mtu", Value: &vpp_interfaces.Interface{Name: v.GetName(), Mtu: v.GetMtu()}})
			}
			return derived
		},
		Dependencies: func(_ string, v *vpp_interfaces.Interface) (needs []kvscheduler.Dependency) {
			if on := v.GetUnnumbered().GetInterfaceWithIp(); on != "" {
				needs = append(needs, kvscheduler.Dependency{Label: "unnumbered", Key: models.VPPInterfaceKey(on)})
			}
			if v.GetVrf() > 0 {
				needs = append(needs, kvscheduler.Dependency{Label: "any TAP", AnyOf: kvscheduler.AnyOf{KeyPrefixes: []string{models.VPPInterfaceKey("tap-")}}})
			}
			return needs
		},
		Create: func(_ context.Context, _ string, v *vpp_interfaces.Interface) (m kvscheduler.NoMetadata, err error) {
			if v.GetName() == "bad" {
				err = errors.New("no such device")
			}
			return m, err
		},
		Update: func(context.Context, string, *vpp_interfaces.Interface, *vpp_interfaces.Interface, kvscheduler.NoMetadata) (m kvscheduler.NoMetadata, err error) {
			return m, nil
		},
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.end)
	return p
}

func (p *past) end() {
	p.scheduler.Close()
	p.recorder.Close()
}

// put commits interfaces for an event; one without type is deleted.
func (p *past) put(about string, interfaces ...*vpp_interfaces.Interface) {
	p.t.Helper()
	txn := p.scheduler.NewTransaction()
	for _, i := range interfaces {
		if i.GetType() == vpp_interfaces.Interface_UNDEFINED_TYPE {
			txn.Put(models.Key(i), nil)
			continue
		}
		txn.Put(models.Key(i), i)
	}
	begin := time.Now()
	seq, _ := txn.Commit(p.t.Context(), kvscheduler.WithDescription(about))
	p.recorder.Event(&controller.EventRecord{
		SeqNum: p.events, Name: "Test", Description: "Test " + about, Enqueued: begin, ProcessingStart: begin, ProcessingEnd: time.Now(), Txn: &controller.TxnRecord{SeqNum: seq},
	})
	p.events++
	if err := p.recorder.Flush(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// putRoute commits a value without descriptor.
func (p *past) putRoute() {
	p.t.Helper()
	route := &vpp_l3.Route{DstNetwork: "10.8.0.0/16"}
	txn := p.scheduler.NewTransaction()
	txn.Put(models.Key(route), route)
	if _, err := txn.Commit(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
}

// ServeHTTP answers as an agent.
func (p *past) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasPrefix(r.URL.Path, history.URL):
		p.recorder.Handler().ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, "/scheduler/"):
		inspect.Handler(p.scheduler).ServeHTTP(w, r)
	case r.URL.Path == "/readiness":
		rest.JSON(w, map[string]any{"Version": "v1", "Verdict": health.Degraded, "Problems": []health.Problem{{Check: "values", Text: "1 value is FAILED"}}})
	case r.URL.Path == service.URL:
		serveServices(w, r)
	case r.URL.Path == ipnet.PodsURL:
		rest.JSON(w, ipnet.PodsReport{Node: "n", Pods: []ipnet.PodReport{{Namespace: "shop", Name: "web", IPs: []string{"10.1.1.2/32"}, Gateway: "10.1.1.1", Keys: []string{models.VPPInterfaceKey("tap-a")}}}})
	default:
		http.NotFound(w, r)
	}
}

// serveServices answers as a node with two services; one has the pod as an endpoint.
func serveServices(w http.ResponseWriter, r *http.Request) {
	ofPod, other := service.EndpointReport{Address: "10.1.1.2:80", Protocol: "TCP"}, service.EndpointReport{Address: "10.1.1.3:80", Protocol: "TCP"}
	one := func(name string, details ...service.EndpointReport) service.ServiceReport {
		return service.ServiceReport{Namespace: "shop", Name: name, Frontends: []service.FrontendReport{{Kind: "ClusterIP", Address: "10.96.0.1:80", Protocol: "TCP"}}, Endpoints: 1, Details: details}
	}
	answers := map[string][]service.ServiceReport{
		"":                   {one("web"), one("db")},
		"service=shop%2Fweb": {one("web", other, ofPod)},
		"service=shop%2Fdb":  {one("db", other)},
		"verbose=":           {one("web", other, ofPod), one("db", other)},
		"endpoint=10.1.1.2":  {one("web", ofPod)},
	}
	services, known := answers[r.URL.RawQuery]
	if !known {
		rest.Error(w, http.StatusNotFound, service.Unknown(r.URL.Query().Get("service"), service.Translator{}, []string{"shop/web", "shop/db"}))
		return
	}
	rest.JSON(w, service.Report{Services: services})
}

func tap(name string, mtu uint32) *vpp_interfaces.Interface {
	return &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_TAP, Mtu: mtu}
}

// A report answers like the agent, also about earlier runs, and contains no secrets.
func TestReportAnswersAsTheAgentDid(t *testing.T) {
	dir := t.TempDir()
	first := startPast(t, filepath.Join(dir, "history"))
	secret := &vpp_interfaces.Interface{Name: "wg", Type: vpp_interfaces.Interface_WIREGUARD_TUNNEL, Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: canary}}}
	first.put("begin", tap("tap-a", 1400), tap("gone", 0), secret)
	first.put("change", tap("tap-a", 1450), &vpp_interfaces.Interface{Name: "gone"})
	first.end()
	second := startPast(t, filepath.Join(dir, "history"))
	waiting := tap("tap-b", 0)
	waiting.Unnumbered = &vpp_interfaces.Interface_Unnumbered{InterfaceWithIp: "nix"}
	choosy := tap("choosy", 0)
	choosy.Vrf = 1
	second.put("again", tap("tap-a", 1450), tap("bad", 0), waiting, choosy, secret)
	second.putRoute()
	socket := filepath.Join(dir, "s")
	serve(t, socket, second)
	agents := []string{"--agent", "n=unix://" + socket, "--agent", "away=unix://" + filepath.Join(dir, "nobody")}

	file := filepath.Join(dir, "report.tgz")
	out, errOut, err := run(t, append(agents, "report", "--file", file)...)
	if !errors.Is(err, ErrReported) || !strings.Contains(out, "report.tgz (") || !strings.Contains(errOut, "away: unreachable at ") {
		t.Fatalf("%v %s %s", err, out, errOut)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	names := searched(t, file)
	for _, want := range []string{"/README", "/report.json", "/nodes/n/index.json", "/nodes/n/history/00000001.log"} {
		if !strings.Contains(names, want+"\n") {
			t.Errorf("no %s in\n%s", want, names)
		}
	}

	// Derivable answers are not in it.
	for _, unwanted := range []string{"graph-snapshot", "scheduler-status", "dump-view-NB", "dump-view-cached", "txn-history"} {
		if strings.Contains(names, unwanted) {
			t.Errorf("%s in\n%s", unwanted, names)
		}
	}

	for _, command := range []string{
		"status", "pods", "pods -o json",
		"events", "events --last 1", "events --seq 1.1", "events -o json", "txns", "txns 1.0", "txns 0", "txns 0 -o diagram", "txns 1.7", "txns 77", "txns -o yaml",
		"values", "values tap-a", "values --state unimplemented", "explain 10.8.0.0/16", "values --state PENDING", "values --state failed", "values nothing", "values -o json",
		"explain tap-b", "explain choosy -o json", "explain web", "explain web -o json", "services", "services shop/db", "services shop/nix", "explain bad", "explain config/vpp/v2/interfaces/nix",
		"timeline tap-a", "timeline gone", "timeline web", "timeline tap-a -o json",
		"diff --from txn:1.0", "diff --from txn:1.0 --to txn:1.1", "diff --since txn:1.1 --to txn:0",
		"diff --since -10m", "diff --since -20m --to -10m", "graph --at -10m", // before the first record
		"dump --view NB", "dump", "dump --view cached", "dump --view NB -o json", "dump --view cached --descriptor vpp-interface", "dump tap-a --view NB", "dump --view NB --descriptor nix",
		"graph", "graph tap-b", "graph choosy", "graph --at txn:1.0", "graph -o json",
	} {
		args := append(strings.Fields(command), "--node", "n")
		want, wantErr, err := run(t, append(agents, args...)...)
		got, gotErr, fromErr := run(t, append([]string{"--from", file}, args...)...)
		if diff := cmp.Diff(want+wantErr, got+gotErr); diff != "" || ExitCode(err) != ExitCode(fromErr) {
			t.Errorf("%s: the report tells something else (-agent, %v; +report, %v)\n%s", command, err, fromErr, diff)
		}
		if strings.Contains(got, canary) {
			t.Errorf("%s shows a secret", command)
		}
	}
	if out, _, err := run(t, "--from", file, "events", "n"); err != nil || !strings.Contains(out, "--- agent v1 started, run 2; run 1 was stopped after ") {
		t.Errorf("the restart is not marked: %v\n%s", err, out)
	}
	if _, errOut, err := run(t, "--from", file, "status"); ExitCode(err) != 2 || !strings.Contains(errOut, "away: when the report was made: unreachable at ") {
		t.Errorf("a node that was away: %v %s", err, errOut)
	}
	for args, want := range map[string]string{
		"resync":             "a report cannot answer `contivctl resync`",
		"config get":         "a report cannot answer `contivctl config get`",
		"events -f":          "--from reads a report, which does not change: drop --follow",
		"status -w":          "--from reads a report, which does not change: drop --watch",
		"pods nobody":        `node "nobody" is not known`,
		"why web db":         "a report cannot answer `contivctl why`",
		"txns 1234 --node n": "transaction #1234 is not in the history",
	} {
		if _, _, err := run(t, append([]string{"--from", file}, strings.Fields(args)...)...); ExitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: exit code %d, %v", args, ExitCode(err), err)
		}
	}
	for name, want := range map[string]string{file + "x": "no such file", filepath.Join(dir, "history/00000001.log"): "is not a report of `contivctl report`"} {
		if _, _, err := run(t, "--from", name, "status"); ExitCode(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("--from %s: exit code %d, %v", name, ExitCode(err), err)
		}
	}
}

// searched returns the file names in a report, one per line, and reports secrets in it.
func searched(t *testing.T, name string) (names string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if err == io.EOF {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names += header.Name + "\n"
		var content io.Reader = archive
		if strings.HasSuffix(header.Name, ".gz") {
			if content, err = gzip.NewReader(archive); err != nil {
				t.Fatal(err)
			}
		}
		data, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), canary) {
			t.Errorf("%s has a secret", header.Name)
		}
	}
}
