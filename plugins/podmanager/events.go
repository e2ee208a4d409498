package podmanager

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/contiv/contiv/controller"
)

// PodInterface is an interface of a pod that was configured for AddPod.
type PodInterface struct {
	// HostName is the name inside of the pod.
	HostName string
	// IPs with prefix lengths; at most one of each IP version.
	IPs []netip.Prefix
	// Gateways of IPs, in the same order.
	Gateways []netip.Addr
	MAC      string
	MTU      uint32
}

// Route is a route of a pod that was configured for AddPod.
type Route struct {
	Network netip.Prefix
	Gateway netip.Addr
}

// AddPod asks for the network of a pod. It is repeatable for the same container.
type AddPod struct {
	controller.Blocking
	Pod         PodID
	ContainerID string
	NetNS       string
	IfName      string
	// Network is the name of the network configuration.
	Network string
	// HostPorts of the node are to lead to the pod.
	HostPorts []HostPort

	// ExternalIPs are the pod's addresses if another IPAM plugin assigned them.
	ExternalIPs []netip.Addr

	// Interfaces and Routes are filled in by the handlers that configure them.
	Interfaces []PodInterface
	Routes     []Route

	// caller ends when the event has no waiting caller any more.
	caller context.Context
	// pod is what the runtime said.
	pod LocalPod
	// obsolete is the pod's other attachment, which is to be removed first.
	obsolete *LocalPod
	// added: the pod was not known before.
	added bool
	// recorded gets an error when what is remembered of the pod is on the disk; nil if it is not
	// recorded.
	recorded <-chan error
	// queued says that the recorder need not wait for this pod any longer; may be nil.
	queued func()
	outcome
}

func newAddPod(caller context.Context, pod LocalPod) *AddPod {
	return &AddPod{Blocking: controller.NewBlocking(), caller: caller, pod: pod,
		Pod: pod.ID, ContainerID: pod.ContainerID, NetNS: pod.NetNS, IfName: pod.IfName, Network: pod.Network, HostPorts: pod.HostPorts}
}

func (*AddPod) Name() string                                { return "Add Pod" }
func (*AddPod) Method() controller.EventMethod              { return controller.Update }
func (*AddPod) TransactionType() controller.TransactionType { return controller.RevertOnFailure }
func (*AddPod) Direction() controller.Direction             { return controller.Forward }
func (e *AddPod) String() string {
	return fmt.Sprintf("Add Pod %v\n* container: %s\n* network namespace: %s", e.Pod, e.ContainerID, e.NetNS)
}

// DeletePod asks to remove the network of a pod, if it is still the one of the
// given container.
type DeletePod struct {
	controller.Blocking
	Pod         PodID
	ContainerID string
	outcome
}

func newDeletePod(pod *LocalPod) *DeletePod {
	return &DeletePod{Blocking: controller.NewBlocking(), Pod: pod.ID, ContainerID: pod.ContainerID}
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

// CheckPod asks whether the network of a pod is still as configured. Nothing is
// changed.
type CheckPod struct {
	controller.Blocking
	Pod         PodID
	ContainerID string

	// Interfaces and Routes are filled in as for AddPod.
	Interfaces []PodInterface
	Routes     []Route
	outcome
}

func newCheckPod(pod *LocalPod) *CheckPod {
	return &CheckPod{Blocking: controller.NewBlocking(), Pod: pod.ID, ContainerID: pod.ContainerID}
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

// PodCustomIfUpdate gives a wired pod the custom interfaces that its annotations declare. It
// follows the event that wired the pod or changed its annotations, or that freed an
// address which an interface waited for.
type PodCustomIfUpdate struct {
	controller.NonBlocking
	Pod PodID
	// Before is what was declared before; podmanager fills it in.
	Before CustomIfs
}

func (*PodCustomIfUpdate) Name() string                                { return "Pod Custom Interfaces Update" }
func (*PodCustomIfUpdate) Method() controller.EventMethod              { return controller.Update }
func (*PodCustomIfUpdate) TransactionType() controller.TransactionType { return controller.BestEffort }
func (*PodCustomIfUpdate) Direction() controller.Direction             { return controller.Forward }
func (e *PodCustomIfUpdate) String() string {
	return fmt.Sprintf("Pod Custom Interfaces Update: %v", e.Pod)
}

// outcome is what the event loop tells about the processing of an event.
type outcome struct {
	seqNum     uint64
	southbound time.Duration
}

// Processed implements controller.ProcessedObserver.
func (o *outcome) Processed(seqNum, _ uint64, southbound time.Duration) {
	o.seqNum, o.southbound = seqNum, southbound
}

// WasWired reports whether the pod already had a network before the event, which then only repeats
// earlier work.
func (e *AddPod) WasWired() bool { return !e.added }
