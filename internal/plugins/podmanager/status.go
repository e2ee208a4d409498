package podmanager

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
)

// NodeView is the server's view of the node. Its functions may be nil and are called concurrently.
type NodeView struct {
	// Connected returns the reason why Kubernetes' pods may be outdated, or nil.
	Connected func() error
	// Ready returns the reason why pods cannot be wired, or nil.
	Ready func() error
	// PodCIDRs returns the node's pod subnets in Kubernetes.
	PodCIDRs func() []string
	// Device returns the node's device to a pod, or false if the vswitch needs none.
	Device func(PodID) (name, mac string, ok bool)
	// Called receives each request's command, such as ADD, duration and result.
	Called func(command string, took time.Duration, failed bool)
}

// Status reports whether pods can be wired now. It does not wait.
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

var errStarting = errors.New("the agent has not finished its startup resync: try again later; " +
	"if this persists, check in the agent's log why etcd is unreachable")

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

// nodeEnd describes the pod's device on the node, if any. Later plugins in a chain, such as
// bandwidth, work on it.
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
