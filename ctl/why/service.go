package why

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/service/processor"
)

// findService returns a service's cluster IPs as a place without a node.
func findService(ctx context.Context, agents []*target.Agent, namespace, word string) (Place, error) {
	if before, name, ok := strings.Cut(word, "/"); ok {
		namespace, word = before, name
	}
	name := cmp.Or(namespace, "default") + "/" + word
	var failed error
	for _, a := range target.GetAll[service.Report](ctx, agents, service.URL, url.Values{"service": {name}}) {
		failed = cmp.Or(failed, a.Err)
		for _, s := range a.Value.Services {
			place := Place{Name: "service " + name}
			for _, f := range s.Frontends {
				addr, err := netip.ParseAddrPort(f.Address)
				switch {
				case err != nil || f.Kind != processor.ClusterIP:
				case place.Address == "":
					place.Address = addr.Addr().String()
				default:
					place.others = append(place.others, addr.Addr())
				}
			}
			if place.Address != "" {
				return place, nil
			}
		}
	}
	if failed != nil {
		return Place{}, failed
	}
	return Place{}, fmt.Errorf("no node translates service %q: give its address, or see `contivctl services`", name)
}
