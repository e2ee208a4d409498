package controller_test

import (
	"context"
	"strings"
	"testing"

	mergepb "github.com/contiv/contiv/api/contiv/merge"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

var (
	tap       = models.VPPInterfaceKey("tap")
	directive = models.MergeDirectives.KeyPrefix() + tap
)

// directives parses merge directives for the interface tap.
func directives(t *testing.T, json string) *mergepb.Directives {
	t.Helper()
	d := &mergepb.Directives{}
	if err := protojson.Unmarshal([]byte(json), d); err != nil {
		t.Fatal(err)
	}
	d.Key = tap
	return d
}

func tapInterface(t *testing.T, json string) *vpp_interfaces.Interface {
	t.Helper()
	v := &vpp_interfaces.Interface{}
	if err := protojson.Unmarshal([]byte(json), v); err != nil {
		t.Fatal(err)
	}
	return v
}

const ours = `{"name":"tap","mtu":1500,"enabled":true,"ipAddresses":["10.0.0.1/24","10.0.0.2/24"],"tap":{"version":2,"rxRingSize":256},
	"rxModes":[{"queue":1,"mode":"POLLING"},{"queue":2,"mode":"INTERRUPT"}]}`

func TestDirectives(t *testing.T) {
	for _, test := range []struct{ name, directives, external, want string }{
		{"lists are added to", `{}`, `{"ipAddresses":["10.0.0.9/24"]}`,
			`{"name":"tap","mtu":1500,"enabled":true,"ipAddresses":["10.0.0.1/24","10.0.0.2/24","10.0.0.9/24"],"tap":{"version":2,"rxRingSize":256},
			"rxModes":[{"queue":1,"mode":"POLLING"},{"queue":2,"mode":"INTERRUPT"}]}`},
		{"duplicates are merged", `{}`, ours, ours},
		{"a list is replaced", `{"replace":["ip_addresses","rx_modes"]}`, `{"ipAddresses":["10.0.0.9/24"]}`,
			`{"name":"tap","mtu":1500,"enabled":true,"ipAddresses":["10.0.0.9/24"],"tap":{"version":2,"rxRingSize":256}}`},
		{"items are removed", `{"remove":[{"list":"ip_addresses","item":"\"10.0.0.1/24\""},{"list":"rx_modes","item":"{\"queue\":2}"},{"list":"rx_modes","item":"{\"queue\":1,\"mode\":\"INTERRUPT\"}"}]}`, `{}`,
			`{"name":"tap","mtu":1500,"enabled":true,"ipAddresses":["10.0.0.2/24"],"tap":{"version":2,"rxRingSize":256},"rxModes":[{"queue":1,"mode":"POLLING"}]}`},
		{"scalars are unset", `{"unset":["mtu","enabled","tap.rx_ring_size"],"replace":["ip_addresses","rx_modes"]}`, `{}`,
			`{"name":"tap","tap":{"version":2}}`},
		{"a message is unset", `{"unset":["tap","mtu"],"replace":["ip_addresses","rx_modes"]}`, `{"memif":{"master":true}}`,
			`{"name":"tap","enabled":true,"memif":{"master":true}}`},
		{"a field inside of an absent message is unset already", `{"unset":["memif.id"]}`, `{}`, ours},
		{"the value is discarded", `{"discard":true}`, `{"name":"tap","mtu":9000}`, `{"name":"tap","mtu":9000}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig) {
				internal := tapInterface(t, ours)
				r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
					txn.Put(tap, internal)
					return nil
				}
				external := controller.ExternalConfig{directive: directives(t, test.directives), tap: tapInterface(t, test.external)}
				want := values{tap: tapInterface(t, test.want)}

				r.push(&controller.DBResync{External: external})
				r.wantConfig(want)

				// The same by changes, in any order, and back.
				r.push(&controller.DBResync{})
				r.wantConfig(values{tap: tapInterface(t, ours)})
				for _, key := range []string{tap, directive} {
					r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{key: external[key]}})
				}
				r.wantConfig(want)
				r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{tap: nil, directive: nil}})
				r.wantConfig(values{tap: tapInterface(t, ours)})
				if !proto.Equal(internal, tapInterface(t, ours)) {
					t.Error("the internal value was changed")
				}
			})
		})
	}
}

func TestDiscardedValueIsRemoved(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		r.a.resync = func(_ context.Context, _ controller.Event, _ controller.KubeState, _ int, txn controller.ResyncOperations) error {
			txn.Put(tap, tapInterface(t, ours))
			return nil
		}
		r.started()
		r.push(&controller.ExternalConfigChange{Source: "db", Changes: controller.ExternalConfig{directive: directives(t, `{"discard":true}`)}})
		r.wantConfig(values{})
		r.push(&controller.DBResync{External: controller.ExternalConfig{directive: directives(t, `{"discard":true}`)}})
		r.wantConfig(values{})
	})
}

func TestDirectivesThatMakeNoSense(t *testing.T) {
	s := &source{name: "s"}
	for _, test := range []struct{ directives, want string }{
		{`{"unset":["mtuu"]}`, `ligato.vpp.interfaces.Interface has no field "mtuu"`},
		{`{"unset":["ip_addresses"]}`, "use replace"},
		{`{"replace":["mtu"]}`, "use unset"},
		{`{"unset":["mtu.x"]}`, "no fields inside"},
		{`{"remove":[{"list":"mtu","item":"1"}]}`, "is not a list"},
		{`{"remove":[{"list":"ip_addresses","item":"5"}]}`, "must be a text"},
		{`{"remove":[{"list":"ip_addresses","item":""}]}`, "one item"},
		{`{"remove":[{"list":"rx_modes","item":"{\"queu\":1}"}]}`, "queu"},
	} {
		withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
			r.started()
			result := controller.NewBlocking()
			r.push(&controller.ExternalConfigChange{Source: "s", Result: &result, Changes: controller.ExternalConfig{
				directive: directives(t, test.directives), tap: tapInterface(t, ours),
			}})
			if err := result.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want an error with %q", test.directives, err, test.want)
			}
			r.wantConfig(values{})

			// The database source receives no error: invalid directives are skipped.
			r.push(&controller.DBResync{External: controller.ExternalConfig{directive: directives(t, test.directives), tap: tapInterface(t, ours)}})
			r.wantConfig(values{tap: tapInterface(t, ours)})
		})
	}
}

func TestDirectivesForNothing(t *testing.T) {
	s := &source{name: "s"}
	withSources(t, []controller.ExternalConfigSource{s}, func(t *testing.T, r *rig) {
		r.started()
		for key, d := range map[string]proto.Message{
			directive: &mergepb.Directives{Key: "config/other"},
			models.MergeDirectives.KeyPrefix() + "config/nothing": &mergepb.Directives{Key: "config/nothing"},
			models.MergeDirectives.KeyPrefix() + directive:        &mergepb.Directives{Key: directive},
			models.MergeDirectives.KeyPrefix() + "x":              iface("x"),
		} {
			result := controller.NewBlocking()
			r.push(&controller.ExternalConfigChange{Source: "s", Result: &result, Changes: controller.ExternalConfig{key: d}})
			if err := result.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: got %v", key, err)
			}
		}
	})
}
