package northbound

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/contiv/contiv/listener"
	"github.com/contiv/contiv/plugins/contivgrpc"
)

// Each method that is served either changes something, by its name, or is known to change nothing.
func TestMethodsThatChangeNothing(t *testing.T) {
	s := NewServer(listener.Options{}.Client, nil, slog.New(slog.DiscardHandler))
	defer s.Server.Stop()
	(&contivgrpc.Service{}).Register(s)
	(&Ligato{}).Register(s)
	(&StatusService{}).Register(s)
	changing := strings.Fields("Put Del Resync SetConfig Update Delete")
	served := map[string]bool{}
	for service, info := range s.GetServiceInfo() {
		for _, method := range info.Methods {
			name := "/" + service + "/" + method.Name
			served[name] = true
			changes := false
			for _, c := range changing {
				changes = changes || method.Name == c
			}
			if changes == reads[name] {
				t.Errorf("%s: changes %v, known to change nothing %v", name, changes, reads[name])
			}
		}
	}
	for name := range reads {
		if !served[name] {
			t.Errorf("%s is not served", name)
		}
	}
}
