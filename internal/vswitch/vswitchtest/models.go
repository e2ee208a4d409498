package vswitchtest

import (
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/models"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// samples is the path of the sample values, relative to a driver's package.
const samples = "../../../models/testdata/"

// runModels requests a value of each model with all fields set. Each value must be configured,
// pending, failed or invalid, or the vswitch must report the unimplemented field.
func runModels(t *testing.T, c Config) {
	for _, model := range models.All() {
		if !strings.HasPrefix(model.Name(), "vpp.") {
			continue
		}
		t.Run(model.Name(), func(t *testing.T) {
			value := sample(t, model)
			a := startAgent(t, c.NewSite(t))
			txn := a.NewTransaction()
			txn.Put(models.Key(value), value)
			_, _ = txn.Commit(t.Context())
			status := a.ValueStatus(models.Key(value)).GetValue()
			switch status.GetState() {
			case pb.ValueState_CONFIGURED, pb.ValueState_PENDING, pb.ValueState_FAILED, pb.ValueState_INVALID:
			case pb.ValueState_UNIMPLEMENTED:
				if !isReason(status) {
					t.Errorf("no reason why it is unimplemented: %q", status.GetError())
				}
			default:
				t.Errorf("%v: %s %v", status.GetState(), status.GetError(), status.GetDetails())
			}
		})
	}
}

func sample(t testing.TB, model *models.Model) proto.Message {
	t.Helper()
	archive, err := txtar.ParseFile(samples + model.Name() + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range archive.Files {
		if file.Name != "json" {
			continue
		}
		value := model.New()
		if err := protojson.Unmarshal(file.Data, value); err != nil {
			t.Fatal(err)
		}
		return value
	}
	t.Fatal("no sample")
	return nil
}
