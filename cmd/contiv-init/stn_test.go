package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/bolt"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/internal/kubernetes/kubestate"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
)

func TestTheftByTheAgentsConfiguration(t *testing.T) {
	dir := t.TempDir()
	write := func(name, content string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	all := write("all.conf", "stealInterface: eth0\nstnSocketFile: /run/stn.sock\nipamConfig: {nodeInterconnectDHCP: true}\n")
	one := write("one.conf", "nodeConfig: [{nodeName: n1, stealInterface: ens8}]\n")
	none := write("none.conf", "")
	for name, c := range map[string]struct {
		env, flags []string
		want       string
	}{
		"all nodes":          {nil, []string{"--vswitch", "vpp", "--contiv-config", all, "--node-name=n7"}, "&{eth0 true /run/stn.sock}"},
		"this node":          {nil, []string{"--contiv-config=" + one, "--http", "127.0.0.1:9999", "--node-name", "n1"}, "&{ens8 false /var/run/contiv/stn.sock}"},
		"by environment":     {[]string{"CONTIV_CONFIG", one, "MICROSERVICE_LABEL", "n1"}, []string{"--standalone"}, "&{ens8 false /var/run/contiv/stn.sock}"},
		"flags come first":   {[]string{"CONTIV_AGENT_CONTIV_CONFIG", one, "CONTIV_AGENT_NODE_NAME", "n1"}, []string{"--node-name", "n2"}, "<nil>"},
		"another node":       {nil, []string{"--contiv-config", one, "--node-name", "n2"}, "<nil>"},
		"nothing to steal":   {nil, []string{"--contiv-config", none}, "<nil>"},
		"wrong file":         {nil, []string{"--contiv-config", write("wrong.conf", "stealInterfaces: eth0")}, "stealInterface"},
		"no file":            {nil, []string{"--contiv-config", "/nowhere"}, "/nowhere"},
		"first network card": {nil, []string{"--contiv-config", write("first.conf", "stealFirstNIC: true")}, "&{ false /var/run/contiv/stn.sock}"},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv(c.env[i], c.env[i+1])
			}
			got, err := theftBy(t.Context(), c.flags, slog.New(slog.DiscardHandler))
			text := fmt.Sprint(got)
			if err != nil {
				text = err.Error()
			}
			if !strings.Contains(text, c.want) {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// The node's NodeConfig overrides its section of contiv.conf. It is read from etcd, or else from
// the agent's local copy.
func TestTheftByNodeConfig(t *testing.T) {
	dir := t.TempDir()
	server := etcdtest.Start(t).Endpoint()
	conf, off := filepath.Join(dir, "contiv.conf"), filepath.Join(dir, "off.conf")
	for path, content := range map[string]string{
		conf: "crdNodeConfigurationDisabled: false\nnodeConfig: [{nodeName: n1, stealInterface: ens8}]\n",
		off:  "crdNodeConfigurationDisabled: true\nnodeConfig: [{nodeName: n1, stealInterface: ens8}]\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := models.KSRPrefix + kubestate.NodeConfigKey("n1")
	put := func(db store.Broker, key, value string) {
		t.Helper()
		if err := db.Put(t.Context(), key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	etcdDB, err := etcd.New(etcd.Config{Endpoints: []string{server}})
	if err != nil {
		t.Fatal(err)
	}
	defer etcdDB.Close()
	kept := func(name string, values map[string]string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		db, err := bolt.Open(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		for key, value := range values {
			put(db, key, value)
		}
		return path
	}
	mirror := kept("mirror.db", map[string]string{key: `{"stealInterface": "eth8"}`, contivconf.StoreKey: `{"stealInterface": "eth9"}`})
	damaged := kept("damaged.db", map[string]string{key: `{"stealInterface`, contivconf.StoreKey: `{"stealInterface": "eth9"}`})
	const nobody = "http://127.0.0.1:1"
	theft := func(config, endpoint, boltFile string) string {
		t.Helper()
		got, err := theftBy(t.Context(), []string{"--contiv-config", config, "--node-name", "n1", "--etcd-endpoints", endpoint, "--bolt", boltFile}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if got == nil {
			return ""
		}
		return got.name
	}
	is := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q is stolen, want %q", what, got, want)
		}
	}
	is("etcd has none", theft(conf, server, mirror), "ens8")
	put(etcdDB, key, `{"stealInterface": "eth7"}`)
	is("etcd", theft(conf, server, mirror), "eth7")
	is("disabled", theft(off, server, mirror), "ens8")
	put(etcdDB, key, `{"gateway": "10.0.0.1"}`)
	is("a NodeConfig without theft", theft(conf, server, mirror), "")
	put(etcdDB, key, `{"stealInterface`)
	is("etcd has an unreadable value", theft(conf, server, mirror), "eth8")
	is("no etcd", theft(conf, nobody, mirror), "eth8")
	is("no etcd, and a mirror that cannot be read", theft(conf, nobody, damaged), "eth9")
	is("no etcd, and no agent ever ran", theft(conf, nobody, filepath.Join(dir, "none.db")), "ens8")
	if _, err := os.Stat(filepath.Join(dir, "none.db")); err == nil {
		t.Error("the agent's file was made")
	}
}

// daemon is a contiv-stn that records its requests.
type daemon struct {
	stn.UnimplementedSTNServer
	mu    sync.Mutex
	asked []string
}

func (d *daemon) note(what string, r *stn.STNRequest) (*stn.STNReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked = append(d.asked, what+" "+r.GetInterfaceName())
	return &stn.STNReply{InterfaceName: r.GetInterfaceName()}, nil
}

func (d *daemon) StealInterface(_ context.Context, r *stn.STNRequest) (*stn.STNReply, error) {
	return d.note("steal", r)
}

func (d *daemon) ReleaseInterface(_ context.Context, r *stn.STNRequest) (*stn.STNReply, error) {
	return d.note("release", r)
}

// The card is stolen before each start of VPP and released at the end.
func TestCardIsStolenBeforeVPPStarts(t *testing.T) {
	dir, flags := unitOf(t)
	socket, conf := filepath.Join(dir, "stn.sock"), filepath.Join(dir, "contiv.conf")
	if err := os.WriteFile(conf, []byte("stealInterface: eth7\nstnSocketFile: "+socket+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	d, server := &daemon{}, grpc.NewServer()
	stn.RegisterSTNServer(server, d)
	go server.Serve(l)
	defer server.Stop()

	p := start(t, dir, append(flags, "--", "--contiv-config", conf)...)
	vpp := number(t, p.await(`^vpp: up (\d+)`, 1))
	if claimed, up := p.index(`^init: .*Network card claimed for VPP.* interface=eth7`), p.index(`^vpp: up`); claimed < 0 || claimed > up {
		t.Errorf("the card was claimed in line %d, VPP started in line %d", claimed, up)
	}
	syscall.Kill(vpp, syscall.SIGKILL)
	p.await(`^vpp: up (\d+)`, 2)
	if code := p.end(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if got := strings.Join(d.asked, ", "); got != "steal eth7, steal eth7, release eth7" {
		t.Errorf("contiv-stn was asked to %s", got)
	}
}
