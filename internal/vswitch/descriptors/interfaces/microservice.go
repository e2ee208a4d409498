package interfaces

import (
	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// microservices locates the far ends of TAPs in microservices.
type microservices struct{ s *kvscheduler.Scheduler }

// microserviceOf returns the microservice of a TAP's far end: tap.host_namespace or
// tap.to_microservice; "" if none.
func microserviceOf(iface *vpp_interfaces.Interface) string {
	if ns := iface.GetTap().GetHostNamespace(); ns.GetType() == linux_namespace.NetNamespace_MICROSERVICE {
		return ns.GetReference()
	}
	return iface.GetTap().GetToMicroservice()
}

// resolve returns the interface with the path of the microservice's network namespace, or unchanged
// without microservice. The driver handles one that does not run.
func (m microservices) resolve(iface *vpp_interfaces.Interface) *vpp_interfaces.Interface {
	label := microserviceOf(iface)
	if label == "" {
		return iface
	}
	ref := &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: label}
	if meta, ok := m.s.Metadata(models.MicroserviceDescriptor, label); ok {
		ref = &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_FD, Reference: meta.(string)}
	}
	iface = proto.CloneOf(iface)
	iface.GetTap().ToMicroservice, iface.GetTap().HostNamespace = "", ref
	return iface
}

// restore writes the far end's place in the form of the wanted interface.
func (m microservices) restore(found, resolved, wanted *vpp_interfaces.Interface) {
	if microserviceOf(wanted) != "" && proto.Equal(found.GetTap().GetHostNamespace(), resolved.GetTap().GetHostNamespace()) {
		found.GetTap().ToMicroservice = wanted.GetTap().GetToMicroservice()
		found.GetTap().HostNamespace = wanted.GetTap().GetHostNamespace()
	}
}

// microserviceDependencies makes a TAP wait for its microservice.
func microserviceDependencies(iface *vpp_interfaces.Interface) []kvscheduler.Dependency {
	if label := microserviceOf(iface); label != "" {
		return []kvscheduler.Dependency{{Label: "microservice-available", Key: models.LinuxMicroserviceKey(label)}}
	}
	return nil
}
