package standalone

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/models"
	"github.com/contiv/contiv/test/await"
	"google.golang.org/protobuf/encoding/protojson"
)

// Link states appear in etcd and in contivctl after any cause of a change.
func TestStatesOfInterfaces(t *testing.T) {
	s := newSite(t, "--etcd-endpoints", "http://127.0.0.1:32379", "--controller-delay-local-resync", "100ms")
	tap := &rpc.DataRequest{Interfaces: []*vpp_interfaces.Interface{{
		Name: "tap", Type: vpp_interfaces.Interface_TAP, Enabled: true,
		Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2, HostIfName: "cable"}},
	}}}
	db := s.startEtcd()
	former := models.NodePrefix("alone") + models.InterfaceStatePrefix + "former"
	if err := db.Put(t.Context(), former, []byte(`{"name":"former"}`)); err != nil {
		t.Fatal(err)
	}
	s.start()
	s.put(tap)
	state := func(wanted vpp_interfaces.InterfaceState_Status) func() error {
		return func() error {
			kv, ok, err := db.Get(t.Context(), models.NodePrefix("alone")+models.InterfaceStatePrefix+"tap")
			var state vpp_interfaces.InterfaceState
			if err != nil || !ok {
				return fmt.Errorf("no state: %w", err)
			}
			if err := protojson.Unmarshal(kv.Value, &state); err != nil || state.GetOperStatus() != wanted || state.GetInternalName() != "c-tap" {
				return fmt.Errorf("%s: %w", kv.Value, err)
			}
			return nil
		}
	}
	shown := func(wanted string) {
		t.Helper()
		out, err := output(filepath.Join(binaries, "contivctl"), "--agent", "alone=unix://"+s.path("run/agent.sock"), "interfaces")
		if err != nil || !strings.Contains(out, "c-tap   "+wanted) {
			t.Errorf("contivctl interfaces: %v\n%s", err, out)
		}
	}
	for range 2 {
		await.That(t, "no cable yet, or no more", state(vpp_interfaces.InterfaceState_DOWN))
		shown("DOWN")
		s.ip("link", "set", "cable", "up")
		await.That(t, "the cable is plugged in", state(vpp_interfaces.InterfaceState_UP))
		shown("UP")
		s.ip("link", "set", "cable", "down")
	}
	await.That(t, "the state of a former run is gone", func() error {
		if _, ok, err := db.Get(t.Context(), former); ok || err != nil {
			return fmt.Errorf("it is there (%w)", err)
		}
		return nil
	})
	if _, err := s.change().Del(t.Context(), tap); err != nil {
		t.Fatal(err)
	}
	await.That(t, "the state goes with the interface", func() error {
		if kv, ok, err := db.Get(t.Context(), models.NodePrefix("alone")+models.InterfaceStatePrefix+"tap"); ok || err != nil {
			return fmt.Errorf("%s (%w)", kv.Value, err)
		}
		return nil
	})
}
