package feedback_test

import (
	"encoding/json"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"google.golang.org/protobuf/encoding/protojson"
)

// ligatoStatus returns the state in a status in the vpp-agent's format, strictly decoded; ""
// without status.
func (r *rig) ligatoStatus(name string) string {
	r.t.Helper()
	kv, found, err := r.db.Get(r.t.Context(), node+"config-status/"+name)
	if err != nil || !found {
		return ""
	}
	var status pb.ValueStatus
	if err := protojson.Unmarshal(kv.Value, &status); err != nil || !json.Valid(kv.Value) {
		r.t.Fatalf("%s: %v", kv.Value, err)
	}
	if want := "config/" + name; status.GetKey() != want {
		r.t.Errorf("status of %s is of %s", want, status.GetKey())
	}
	return status.GetState().String()
}

// With LigatoStatus, statuses are also published in the vpp-agent's format. They are removed with
// their values, also after a restart, and when LigatoStatus is disabled.
func TestStatusesInTheFormOfTheVPPAgent(t *testing.T) {
	const loop, fails = "vpp/v2/interfaces/loop1", "vpp/v2/interfaces/fail"
	inBubble(t, func(t *testing.T, r *rig) {
		want := func(when, name, state string) {
			t.Helper()
			if got := r.ligatoStatus(name); got != state {
				t.Errorf("%s: %s is %q, want %q", when, name, got, state)
			}
		}
		r.start()
		r.put("config/"+loop, `{"name":"loop1"}`)
		r.settle()
		want("without request", loop, "")

		r.stop()
		r.config.LigatoStatus = true
		r.start()
		want("statuses that were there before", loop, "CONFIGURED")
		r.put("config/"+fails, `{"name":"fail"}`)
		r.settle()
		want("a failure", fails, "RETRYING")
		r.want("config-status/"+fails, "none") // not configuration
		r.delete("config/" + loop)
		r.settle()
		want("a value that was deleted", loop, "")

		r.stop()
		r.delete("config/" + fails)
		r.start()
		want("a value that was deleted while no agent ran", fails, "")

		r.put("config/"+loop, `{"name":"loop1"}`)
		r.settle()
		want("again", loop, "CONFIGURED")
		r.stop()
		r.config.LigatoStatus = false
		r.start()
		want("without request again", loop, "")
		r.want("config/"+loop, "CONFIGURED…")
	})
}
