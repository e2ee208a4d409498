package hostile

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestSecretsOfAllModelsAreRedacted(t *testing.T) {
	const secret = "hunter2-"
	found := 0
	for _, m := range models.All() {
		for _, sample := range Samples(t, root, m) {
			for _, v := range Generate(sample, []string{secret}) {
				name, value, _ := strings.Cut(v.What, " is ")
				name = name[strings.LastIndex(name, ".")+1:]
				if strings.HasSuffix(name, "_salt") {
					if text, err := protojson.Marshal(record.Redact(v.Message)); err != nil || strings.Contains(string(text), "Salt") {
						t.Errorf("%s: %s is shown: %s, %v", m.Name(), v.What, text, err)
					}
				}
				if !strings.Contains(value, secret) || !strings.HasSuffix(name, "_key") && !strings.Contains(name, "secret") && !strings.Contains(name, "password") ||
					strings.Contains(name, "public") {
					continue
				}
				found++
				text, err := protojson.Marshal(record.Redact(v.Message))
				if err != nil || strings.Contains(string(text), secret) {
					t.Errorf("%s: %s is shown: %s, %v", m.Name(), v.What, text, err)
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d secrets were found", found)
	}
}

// Dumps and histories of the scheduler contain no secrets in any state of the value.
func TestSchedulerShowsNoSecrets(t *testing.T) {
	const secret = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	s := kvscheduler.New(kvscheduler.Options{Logger: quiet})
	defer s.Close()
	none := func(context.Context, string, *vpp_interfaces.Interface) (none kvscheduler.NoMetadata, err error) {
		return none, nil
	}
	if err := kvscheduler.Register(s, kvscheduler.Descriptor[*vpp_interfaces.Interface, kvscheduler.NoMetadata]{
		Name: "interface", Keys: kvscheduler.KeySpace{Prefix: models.VPPInterface.KeyPrefix()}, NB: true, Create: none,
		Delete: func(context.Context, string, *vpp_interfaces.Interface, kvscheduler.NoMetadata) error { return nil },
	}); err != nil {
		t.Fatal(err)
	}
	v := &vpp_interfaces.Interface{Name: "wg", Link: &vpp_interfaces.Interface_Wireguard{Wireguard: &vpp_interfaces.WireguardLink{PrivateKey: secret}}}
	for _, v := range []proto.Message{v, nil} {
		if _, err := s.NewTransaction().Put(models.VPPInterface.KeyPrefix()+"wg", v).Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.NewTransaction().Put(models.VPPInterface.KeyPrefix()+"wg", v).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"dump?view=NB", "dump?view=cached", "txn-history", "txn-history?format=text", "graph-snapshot", "key-timeline?key=" + models.VPPInterface.KeyPrefix() + "wg",
		"explain?key=" + models.VPPInterface.KeyPrefix() + "wg", "status"} {
		w := httptest.NewRecorder()
		inspect.Handler(s).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/scheduler/"+path, nil))
		if body := w.Body.String(); strings.Contains(body, secret) {
			t.Errorf("%s: %d: %.1000s", path, w.Code, body)
		}
	}
}
