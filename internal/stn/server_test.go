package stn

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/stn/journal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
)

func TestServices(t *testing.T) {
	h := newHost(t)
	h.interconnect(t)
	k := h.keeper(t)
	defer k.Close()
	k.checkCards()
	socket := filepath.Join(h.dir, "run", "stn.sock")
	l, err := listener.Unix(socket)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]os.FileMode{socket: 0o600, filepath.Dir(socket): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, %v; want %v", path, info.Mode().Perm(), err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- k.Serve(ctx, l) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client, custody := stn.NewSTNClient(conn), stn.NewCustodyClient(conn)

	if r, err := client.StolenInterfaceInfo(ctx, &stn.STNRequest{}); err != nil || r.GetResult() != 1 || r.GetError() == "" {
		t.Errorf("before it is stolen: %v, %v", r, err)
	}
	if r, err := client.StealInterface(ctx, &stn.STNRequest{InterfaceName: "eth7"}); err != nil || r.GetResult() != 1 || !strings.Contains(r.GetError(), "eth7") {
		t.Errorf("an interface that does not exist: %v, %v", r, err)
	}
	r, err := client.StealInterface(ctx, &stn.STNRequest{InterfaceName: "eth0"})
	if err != nil {
		t.Fatal(err)
	}
	text, _ := protojson.Marshal(r)
	const want = `{"ipAddresses":["192.0.2.1/24","192.0.2.7/24","2001:db8::1/64"],"routes":[{"nextHopIp":"192.0.2.254"},{"destinationSubnet":"192.0.2.0/24"},` +
		`{"destinationSubnet":"198.51.100.0/24","nextHopIp":"192.0.2.253","metric":77},{"destinationSubnet":"2001:db8::/64","metric":256},` +
		`{"destinationSubnet":"2001:db8:2::/48","nextHopIp":"fe80::1","metric":50},{"destinationSubnet":"::/0","nextHopIp":"2001:db8::fe","metric":1024}],` +
		`"kernelDriver":"veth","interfaceName":"eth0","macAddress":"02:00:00:00:00:10","mtu":1400}`
	if got := strings.NewReplacer(`, "`, `,"`, `}, {`, `},{`).Replace(string(text)); got != want {
		t.Errorf("it has\n%s\nwant\n%s", got, want)
	}
	if info, err := client.StolenInterfaceInfo(ctx, &stn.STNRequest{}); err != nil || info.GetInterfaceName() != "eth0" {
		t.Errorf("the first one is %v, %v", info, err)
	}

	stream, err := custody.Attend(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		report *stn.Forwarding
		want   stn.Holding_Holder
	}{
		{&stn.Forwarding{InterfaceName: "eth0", Reason: "starting"}, stn.Holding_HOST},
		{&stn.Forwarding{InterfaceName: "eth0", Ready: true}, stn.Holding_VSWITCH},
		{&stn.Forwarding{InterfaceName: "eth0", Reason: "VPP is gone"}, stn.Holding_HOST},
		{&stn.Forwarding{InterfaceName: "eth0", Ready: true}, stn.Holding_VSWITCH},
	} {
		if err := stream.Send(step.report); err != nil {
			t.Fatal(err)
		}
		if got, err := stream.Recv(); err != nil || got.GetHolder() != step.want || got.GetInfo().GetInterfaceName() != "eth0" {
			t.Fatalf("after %v: %v, %v", step.report, got, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	k.holds(t, journal.Host)
	if r, err := client.ReleaseInterface(ctx, &stn.STNRequest{}); err != nil || r.GetResult() != 0 || k.Claimed("") != nil {
		t.Errorf("released: %v, %v", r, err)
	}
}

func TestJournalOfANewerDaemon(t *testing.T) {
	h := newHost(t)
	if err := os.WriteFile(filepath.Join(h.dir, "journal.json"), []byte(`{"version":2,"nics":[{"name":"eth0"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := h.open()
	if !errors.Is(err, journal.ErrNewer) || !strings.Contains(err.Error(), "run contiv-stn release of the newer version") {
		t.Errorf("error is %v", err)
	}
}

func TestDamagedJournal(t *testing.T) {
	h := newHost(t)
	for _, content := range []string{"{", `{"version":1,"nics":[null]}`, `{"version":1,"nics":[{"name":"eth0"}]}`, `[]`} {
		if err := os.WriteFile(filepath.Join(h.dir, "journal.json"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := h.open(); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%s: error is %v", content, err)
		}
	}
}
