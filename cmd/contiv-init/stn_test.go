package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/listener"
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
			got, err := theftBy(c.flags)
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

// daemon is a contiv-stn that remembers what it was asked for.
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

// The card is stolen before each start of VPP, and released at the end.
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
	if claimed, up := p.index(`^init: .*Network card is claimed for VPP.* interface=eth7`), p.index(`^vpp: up`); claimed < 0 || claimed > up {
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
