package podmanager

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
)

// NodeView is the server's view of the node besides its pods. Functions may be nil; they are called
// from several goroutines.
type NodeView struct {
	// Connected says why the pods of Kubernetes may be outdated; nil: they are not.
	Connected func() error
	// Ready tells why pods cannot be wired; nil if they can.
	Ready func() error
	// PodCIDRs are the pod subnets that Kubernetes assigned to the node.
	PodCIDRs func() []string
	// Device is the device of the node that leads to a pod; false if the vswitch
	// needs none.
	Device func(PodID) (name, mac string, ok bool)
	// Called is told of each request, such as ADD, how long it took and whether it failed.
	Called func(command string, took time.Duration, failed bool)
}

// Status reports whether pods can be wired now. It waits for nothing.
func (s *Server) Status(context.Context, *cni.StatusRequest) (*cni.StatusReply, error) {
	reply := &cni.StatusReply{Ready: true}
	if err := s.notReady(); err != nil {
		reply.Ready, reply.Reason = false, err.Error()
	}
	if s.node.PodCIDRs != nil {
		reply.Pod_CIDRs = s.node.PodCIDRs()
	}
	return reply, nil
}

// errStarting is what CNI requests fail with until the first resync.
var errStarting = errors.New("the agent has not finished its startup resync: try again later; " +
	"if this persists, see the agent's log for why it cannot reach etcd and has no local mirror")

// notReady tells why pods cannot be wired.
func (s *Server) notReady() error {
	select {
	case <-s.pods.ready:
	default:
		return errStarting
	}
	if s.node.Ready != nil {
		return s.node.Ready()
	}
	return nil
}

// nodeEnd describes the pod's device on the node, if there is one. Plugins that
// follow in a chain, such as bandwidth, work on it.
func (s *Server) nodeEnd(id PodID) []*cni.CNIReply_Interface {
	if s.node.Device == nil {
		return nil
	}
	name, mac, ok := s.node.Device(id)
	if !ok {
		return nil
	}
	return []*cni.CNIReply_Interface{{Name: name, Mac: mac}}
}
