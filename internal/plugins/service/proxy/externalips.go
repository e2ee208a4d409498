package proxy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	k8s "github.com/contiv/contiv/api/contiv/service"
	"github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/plugins/service/processor"
	"google.golang.org/protobuf/proto"
)

// ExternalIPs applies the option externalIPs, and knows the services that have any.
type ExternalIPs struct {
	setting string
	used    map[processor.ID]bool
}

func newExternalIPs(setting string) *ExternalIPs {
	return &ExternalIPs{setting: setting, used: map[processor.ID]bool{}}
}

func (e *ExternalIPs) reset() { clear(e.used) }

// admit records a service and returns it with the addresses that it may have.
func (e *ExternalIPs) admit(svc *k8s.Service) *k8s.Service {
	if len(svc.GetExternalIps()) == 0 {
		e.forget(svc)
		return svc
	}
	e.used[idOf(svc)] = true
	if e.setting != config.DenyExternalIPs {
		return svc
	}
	svc = proto.CloneOf(svc)
	svc.ExternalIps = nil
	return svc
}

func (e *ExternalIPs) forget(svc *k8s.Service) {
	delete(e.used, idOf(svc))
}

func idOf(svc *k8s.Service) processor.ID {
	return processor.ID{Namespace: svc.GetNamespace(), Name: svc.GetName()}
}

// Note names the services with externalIPs and says what happens to them, or is "".
func (e *ExternalIPs) Note() string {
	if e.setting == config.AllowExternalIPs || len(e.used) == 0 {
		return ""
	}
	const most = 5
	ids := slices.SortedFunc(maps.Keys(e.used), processor.ID.Compare)
	var names []string
	for _, id := range ids[:min(len(ids), most)] {
		names = append(names, fmt.Sprint(id))
	}
	if more := len(ids) - most; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	list := strings.Join(names, ", ")
	if e.setting == config.DenyExternalIPs {
		return "externalIPs are denied by service.conf, and not translated, of services " + list
	}
	return "services with externalIPs, which Kubernetes has deprecated: " + list + "; use type LoadBalancer, or set externalIPs: allow in service.conf"
}
