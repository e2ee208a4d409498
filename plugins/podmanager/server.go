package podmanager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/controller"
	"github.com/contiv/contiv/plugins/podmanager/cniserver"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server serves cni.RemoteCNI, on the socket of its Serve until Stop. Requests that cannot be understood fail with
// InvalidArgument; those that cannot be served now, with Unavailable or
// DeadlineExceeded; in all other cases the reply says what failed.
type Server struct {
	cni.UnimplementedRemoteCNIServer
	*cniserver.Server
	pods *PodManager
	loop controller.EventLoop
	log  *slog.Logger
	node NodeView
}

// NewServer returns a server that sends its events to the loop, and answers questions about the
// node from the view.
func NewServer(pods *PodManager, loop controller.EventLoop, node NodeView, log *slog.Logger) *Server {
	s := &Server{pods: pods, loop: loop, node: node, log: log}
	s.Server = cniserver.New(counted{s, node.Called}, log)
	return s
}

// Add wires a pod.
func (s *Server) Add(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	start := time.Now()
	pod, err := parseAdd(req)
	external, ipamErr := parseIPAM(req)
	if err := errors.Join(err, ipamErr); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	queued := s.pods.db.expect()
	defer queued()
	event, err := s.add(ctx, pod, external, queued)
	reply := &cni.CNIReply{}
	if err == nil {
		reply.Interfaces, reply.Routes = describe(pod.NetNS, event.Interfaces, event.Routes)
		reply.Interfaces = append(s.nodeEnd(pod.ID), reply.Interfaces...)
	}
	return s.finish(ctx, reply, "ADD", req, start, event.outcome, err)
}

// maxReplacements bounds how often a pod is found to be wired for another
// sandbox again: somebody else is adding it, over and over.
const maxReplacements = 3

// add removes what is left of another sandbox of the pod, and wires it, with the
// external addresses if there are any.
func (s *Server) add(ctx context.Context, pod LocalPod, external []netip.Addr, queued func()) (*AddPod, error) {
	old, _ := s.pods.LocalPod(pod.ID)
	if old.sameAttachment(&pod) {
		old = nil
	}
	for range maxReplacements {
		if old != nil {
			s.log.Info("Pod has a new sandbox: the old one is removed", "pod", pod.ID, "old", old.ContainerID, "new", pod.ContainerID)
			if err := s.process(ctx, newDeletePod(old)); err != nil {
				return &AddPod{}, fmt.Errorf("remove the old sandbox %s of pod %v: %w", old.ContainerID, pod.ID, err)
			}
		}
		event := newAddPod(ctx, pod)
		event.ExternalIPs, event.queued = external, queued
		err := s.process(ctx, event)
		if ctx.Err() != nil {
			return &AddPod{}, err // the event may still be in use
		}
		if event.obsolete == nil {
			if err == nil {
				err = s.awaitRecord(ctx, event, &pod)
			}
			return event, err
		}
		old = event.obsolete
	}
	return &AddPod{}, fmt.Errorf("pod %v is being added for several sandboxes at once, the last one is %s: try again later", pod.ID, old.ContainerID)
}

// awaitRecord returns when the next agent would know the pod. If it would not, the pod is
// unwired.
func (s *Server) awaitRecord(ctx context.Context, event *AddPod, pod *LocalPod) error {
	err := event.awaitRecord()
	if err != nil {
		err = errors.Join(err, s.process(context.WithoutCancel(ctx), newDeletePod(pod)))
	}
	return err
}

func (p *LocalPod) sameAttachment(other *LocalPod) bool {
	return p != nil && p.ContainerID == other.ContainerID && p.NetNS == other.NetNS && p.IfName == other.IfName
}

// Delete unwires a pod. Containers that are unknown, or no longer the pod's, are
// no error: there is nothing to be done for them.
func (s *Server) Delete(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	start := time.Now()
	if err := checkAttachment(req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	pod, known := s.pods.byContainer(req.GetContainerId(), req.GetInterfaceName())
	if !known {
		return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, outcome{}, nil)
	}
	event := newDeletePod(pod)
	err := s.remove(ctx, pod, event)
	if ctx.Err() != nil {
		return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, outcome{}, err)
	}
	return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, event.outcome, err)
}

// remove unwires a pod. It fails if the pod is still known then; what else could
// not be removed is left to the next resync.
func (s *Server) remove(ctx context.Context, pod *LocalPod, event *DeletePod) error {
	err := s.process(ctx, event)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, still := s.pods.byContainer(pod.ContainerID, pod.IfName); still {
		return err
	}
	s.log.Error("Pod was not removed completely", "pod", pod.ID, "container", pod.ContainerID, "error", err)
	return nil
}

// Check compares a pod's network with what was configured.
func (s *Server) Check(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	start := time.Now()
	if err := checkAttachment(req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	reply := &cni.CNIReply{}
	pod, known := s.pods.byContainer(req.GetContainerId(), req.GetInterfaceName())
	if !known {
		err := fmt.Errorf("container %s with interface %s: %w", req.GetContainerId(), req.GetInterfaceName(), ErrNotWired)
		return s.finish(ctx, reply, "CHECK", req, start, outcome{}, err)
	}
	event := newCheckPod(pod)
	err := s.process(ctx, event)
	if ctx.Err() != nil {
		return s.finish(ctx, reply, "CHECK", req, start, outcome{}, err)
	}
	reply.Interfaces, reply.Routes = describe(pod.NetNS, event.Interfaces, event.Routes)
	reply.Interfaces = append(s.nodeEnd(pod.ID), reply.Interfaces...)
	return s.finish(ctx, reply, "CHECK", req, start, event.outcome, err)
}

// waitUntilReady returns when the startup resync has restored the local pods.
func (s *Server) waitUntilReady(ctx context.Context) error {
	select {
	case <-s.pods.ready:
		return nil
	case <-ctx.Done():
		return status.Error(codes.Unavailable, errStarting.Error())
	}
}

// blockingEvent is an event whose sender waits.
type blockingEvent interface {
	controller.Event
	Wait(ctx context.Context) error
}

func (s *Server) process(ctx context.Context, event blockingEvent) error {
	// Not with ctx: the event outlives a caller who gives up.
	if err := s.loop.PushEvent(context.WithoutCancel(ctx), event); err != nil {
		return err
	}
	return event.Wait(ctx)
}

// finish completes the reply.
func (s *Server) finish(ctx context.Context, reply *cni.CNIReply, command string, req *cni.CNIRequest, start time.Time, o outcome, err error) (*cni.CNIReply, error) {
	duration := time.Since(start)
	log := s.log.With("command", command, "container", req.GetContainerId(), "args", req.GetExtraArguments(), "duration", duration)
	if refused := s.unserved(ctx, err); refused != nil {
		log.Warn("CNI request was not served", "error", refused)
		return nil, refused
	}
	reply.EventSeqNum = o.seqNum
	reply.SouthboundDurationNs = uint64(o.southbound)
	reply.AgentDurationNs = uint64(duration)
	if err != nil {
		log.Error("CNI request failed", "error", err)
		reply.Result, reply.Error = 1, err.Error()
		return reply, nil
	}
	log.Info("CNI request served", "event", o.seqNum, "southbound", o.southbound)
	return reply, nil
}

// unserved returns the status of a request that was given up, by the caller or
// because the agent cannot serve it now; nil for all others.
func (s *Server) unserved(ctx context.Context, err error) error {
	switch cause := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(cause, context.Canceled):
		return status.Errorf(codes.Canceled, "the agent did not finish in time: %v", err)
	case cause != nil:
		return status.Errorf(codes.DeadlineExceeded, "the agent did not finish in time: %v", err)
	case errors.Is(err, controller.ErrQueueFull) || errors.Is(err, controller.ErrClosed) || errors.Is(err, controller.ErrAborting):
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// describe translates what was configured in the pod.
func describe(netns string, interfaces []PodInterface, routes []Route) ([]*cni.CNIReply_Interface, []*cni.CNIReply_Route) {
	var ifs []*cni.CNIReply_Interface
	for _, i := range interfaces {
		reply := &cni.CNIReply_Interface{Name: i.HostName, Mac: i.MAC, Mtu: i.MTU, Sandbox: netns}
		for n, ip := range i.IPs {
			version := cni.CNIReply_Interface_IP_IPV4
			if ip.Addr().Is6() {
				version = cni.CNIReply_Interface_IP_IPV6
			}
			address := &cni.CNIReply_Interface_IP{Version: version, Address: ip.String()}
			if n < len(i.Gateways) {
				address.Gateway = i.Gateways[n].String()
			}
			reply.IpAddresses = append(reply.IpAddresses, address)
		}
		ifs = append(ifs, reply)
	}
	var rs []*cni.CNIReply_Route
	for _, r := range routes {
		rs = append(rs, &cni.CNIReply_Route{Dst: r.Network.String(), Gw: r.Gateway.String()})
	}
	return ifs, rs
}
