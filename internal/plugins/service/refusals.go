package service

import (
	"cmp"
	"fmt"

	"github.com/contiv/contiv/internal/plugins/service/localnode"
	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// refusal explains why a service does not get an address and port, or an endpoint no clients.
func refusal(node *localnode.Node, r processor.Refusal) string {
	at := fmt.Sprintf("%v/%s", r.Addr, r.Protocol)
	switch {
	case r.Endpoint:
		return fmt.Sprintf("endpoint %s gets no clients, because %v", at, r.Entry)
	case r.Entry.Owner == "":
		return fmt.Sprintf("%s is not translated, because a process of node %s has the port", at, cmp.Or(r.Node, node.Name))
	}
	return fmt.Sprintf("%s is not translated, because %v", at, r.Entry)
}

func remedy(node *localnode.Node, r processor.Refusal) string {
	switch {
	case r.Endpoint:
		return "give the service other endpoints"
	case r.Entry.Service != "" && r.Entry.Service == node.Settings.EtcdService:
		return "use another port; if this is the service of etcd itself, set etcdService in service.conf"
	}
	return "use another port, or another address"
}
