package podmanager

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/contiv/contiv/internal/controller"
)

// PodInterface is a pod interface configured for AddPod.
type PodInterface struct {
	// HostName is the name inside the pod.
	HostName string
	// IPs with prefix lengths, at most one per IP version.
	IPs []netip.Prefix
	// Gateways of IPs, in the same order.
	Gateways []netip.Addr
	MAC      string
	MTU      uint32
}

// Route is a route in a pod, configured for AddPod.
type Route struct {
	Network netip.Prefix
	Gateway netip.Addr
}

// AddPod requests the network of a pod. It may be repeated for the same container.
type AddPod struct {
	answered
	Pod         PodID
	ContainerID string
	NetNS       string
	IfName      string
	// Network is the name of the network configuration.
	Network string
	// HostPorts are the node's ports that lead to the pod.
	HostPorts []HostPort

	// ExternalIPs are the pod's addresses from another IPAM plugin.
	ExternalIPs []netip.Addr

	// Interfaces and Routes are the results, added by the handlers.
	Interfaces []PodInterface
	Routes     []Route

	// caller ends when no caller waits for the event.
	caller context.Context
	pod    LocalPod
	// obsolete is the pod's other attachment, to be removed first.
	obsolete *LocalPod
	// added is set if the pod was unknown before.
	added bool
	// recorded delivers the result of writing the pod's records to disk. It is nil if they are not
	// written.
	recorded <-chan error
	// queued tells the recorder not to wait for this pod. It may be nil.
	queued func()
}

func newAddPod(caller context.Context, pod LocalPod) *AddPod {
	return &AddPod{answered: newAnswered(), caller: caller, pod: pod,
		Pod: pod.ID, ContainerID: pod.ContainerID, NetNS: pod.NetNS, IfName: pod.IfName, Network: pod.Network, HostPorts: pod.HostPorts}
}

func (*AddPod) Name() string                                { return "Add Pod" }
func (*AddPod) Method() controller.EventMethod              { return controller.Update }
func (*AddPod) TransactionType() controller.TransactionType { return controller.RevertOnFailure }
func (*AddPod) Direction() controller.Direction             { return controller.Forward }
func (e *AddPod) String() string {
	return fmt.Sprintf("Add Pod %v\n* container: %s\n* network namespace: %s", e.Pod, e.ContainerID, e.NetNS)
}

// DeletePod requests the removal of a pod's network if it still belongs to the container.
type DeletePod struct {
	answered
	Pod         PodID
	ContainerID string
}

func newDeletePod(pod *LocalPod) *DeletePod {
	return &DeletePod{answered: newAnswered(), Pod: pod.ID, ContainerID: pod.ContainerID}
}

func (*DeletePod) Name() string                   { return "Delete Pod" }
func (*DeletePod) Method() controller.EventMethod { return controller.Update }
func (*DeletePod) TransactionType() controller.TransactionType {
	return controller.BestEffortIgnoreErrors
}
func (*DeletePod) Direction() controller.Direction { return controller.Reverse }
func (e *DeletePod) String() string {
	return fmt.Sprintf("Delete Pod %v\n* container: %s", e.Pod, e.ContainerID)
}

// CheckPod requests a comparison of a pod's network with its configuration.
type CheckPod struct {
	answered
	Pod         PodID
	ContainerID string

	// Interfaces and Routes are added as for AddPod.
	Interfaces []PodInterface
	Routes     []Route
}

func newCheckPod(pod *LocalPod) *CheckPod {
	return &CheckPod{answered: newAnswered(), Pod: pod.ID, ContainerID: pod.ContainerID}
}

func (*CheckPod) Name() string                   { return "Check Pod" }
func (*CheckPod) Method() controller.EventMethod { return controller.Update }
func (*CheckPod) TransactionType() controller.TransactionType {
	return controller.BestEffortIgnoreErrors
}
func (*CheckPod) Direction() controller.Direction { return controller.Forward }
func (e *CheckPod) String() string {
	return fmt.Sprintf("Check Pod %v\n* container: %s", e.Pod, e.ContainerID)
}

// PodCustomIfUpdate requests a wired pod's custom interfaces as declared by its annotations. It
// follows the wiring of the pod, a change of its annotations, or the release of an address for
// which an interface waits.
type PodCustomIfUpdate struct {
	controller.NonBlocking
	Pod PodID
	// Before holds the previous declaration. podmanager sets it.
	Before CustomIfs
}

func (*PodCustomIfUpdate) Name() string                                { return "Pod Custom Interfaces Update" }
func (*PodCustomIfUpdate) Method() controller.EventMethod              { return controller.Update }
func (*PodCustomIfUpdate) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*PodCustomIfUpdate) Direction() controller.Direction             { return controller.Forward }
func (e *PodCustomIfUpdate) String() string {
	return fmt.Sprintf("Pod Custom Interfaces Update: %v", e.Pod)
}

// answered is an event whose outcome answers a call.
type answered struct {
	controller.Blocking
	outcome controller.Outcome
}

func newAnswered() answered { return answered{Blocking: controller.NewBlocking()} }

// await sets the outcome.
func (e *answered) await(ctx context.Context) (err error) {
	e.outcome, err = e.Await(ctx)
	return err
}

// WasWired reports whether the event repeats the wiring of a pod.
func (e *AddPod) WasWired() bool { return !e.added }
