package standalone

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
)

// startEtcd starts an etcd on the node.
func (s *site) startEtcd() store.Broker {
	s.t.Helper()
	socket := "unix://" + s.path("etcd.sock")
	cmd := exec.Command("ip", "netns", "exec", s.netns, filepath.Join(binaries, "contiv-etcd"),
		"--data-dir", s.path("etcd"), "--listen-client", "http://127.0.0.1:32379", "--listen-client", socket)
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	db, err := etcd.New(etcd.Config{Endpoints: []string{socket}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { db.Close() })
	await.That(s.t, "etcd answers", func() error {
		_, _, err := db.Get(s.t.Context(), "/x")
		return err
	})
	return db
}

// An agent with an etcd also takes configuration from there and publishes states. It starts even if
// etcd is down.
func TestEtcdIsOptional(t *testing.T) {
	s := newSite(t, "--etcd-endpoints", "http://127.0.0.1:32379", "--controller-delay-local-resync", "100ms")
	s.start()
	s.put(&rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{loopback("of-grpc", "10.60.0.1/24")}})

	db := s.startEtcd()
	value := loopback("of-etcd", "10.61.0.1/24")
	data, err := models.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	key := models.Key(value)
	if err := db.Put(t.Context(), models.NodePrefix("alone")+key, data); err != nil {
		t.Fatal(err)
	}
	await.That(s.t, "the value in etcd is configured", func() error {
		status, _, err := db.Get(t.Context(), models.NodePrefix("alone")+"status/"+key)
		if err == nil && !strings.Contains(string(status.Value), "CONFIGURED") {
			err = errors.New("status: " + string(status.Value))
		}
		return err
	})
	for _, address := range []string{"10.60.0.1/24", "10.61.0.1/24"} {
		if addresses := s.ip("-br", "addr"); !strings.Contains(addresses, address) {
			t.Errorf("no %s: %s", address, addresses)
		}
	}
	if err := db.Delete(t.Context(), models.NodePrefix("alone")+key); err != nil {
		t.Fatal(err)
	}
	await.That(s.t, "the value is removed", func() error {
		if addresses := s.ip("-br", "addr"); strings.Contains(addresses, "10.61.0.1") {
			return errors.New(addresses)
		}
		return nil
	})
}
