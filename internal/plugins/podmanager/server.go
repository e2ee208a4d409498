package podmanager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/plugins/podmanager/cniserver"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Server serves cni.RemoteCNI until Stop. Invalid requests fail with InvalidArgument, and requests
// that cannot be served now with Unavailable or DeadlineExceeded. Otherwise the reply contains the
// error.
type Server struct {
	cni.UnimplementedRemoteCNIServer
	*cniserver.Server
	pods *PodManager
	loop controller.EventLoop
	log  *slog.Logger
	node NodeView
}

// NewServer returns a server that pushes events to the loop and reads the node's state from the
// view.
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
	pod.arrival = s.pods.arrivals.of(pod.ContainerID, cniserver.Accepted(ctx))
	turn, err := s.enter(ctx, containerKey(pod.ContainerID), "pod "+pod.ID.String())
	if err != nil {
		return nil, err
	}
	defer turn.end()
	queued := s.pods.db.expect()
	defer queued()
	event, err := s.add(ctx, turn, pod, external, queued)
	reply := &cni.CNIReply{}
	if err == nil {
		s.pods.refused.forget(pod.ContainerID)
		reply.Interfaces, reply.Routes = describe(pod.NetNS, event.Interfaces, event.Routes)
		reply.Interfaces = append(s.nodeEnd(pod.ID), reply.Interfaces...)
	}
	return s.finish(ctx, reply, "ADD", req, start, event.outcome, err)
}

const maxReplacements = 3

func (s *Server) add(ctx context.Context, turn *turn, pod LocalPod, external []netip.Addr, queued func()) (*AddPod, error) {
	if err := s.checkIdentity(ctx, turn, &pod); err != nil {
		return &AddPod{}, err
	}
	old, known := s.pods.LocalPod(pod.ID)
	if known && !pod.replaces(old) {
		old = nil
	}
	for range maxReplacements {
		if old != nil {
			s.log.Info("Pod has a new sandbox, removing the old one", "pod", pod.ID, "old", old.ContainerID, "new", pod.ContainerID)
			if err := turn.process(ctx, newDeletePod(old)); err != nil {
				return &AddPod{}, fmt.Errorf("remove the old sandbox %s of pod %v: %w", old.ContainerID, pod.ID, err)
			}
			pod = pod.withOlder(old)
		}
		event := newAddPod(ctx, pod)
		event.ExternalIPs, event.queued = external, queued
		err := turn.process(ctx, event)
		if ctx.Err() != nil {
			return &AddPod{}, err // the event may still be in use
		}
		if event.obsolete == nil {
			if err == nil {
				err = s.awaitRecord(ctx, turn, event, &pod)
			}
			s.noteRefusal(&pod, err)
			return event, err
		}
		old = event.obsolete
	}
	return &AddPod{}, fmt.Errorf("pod %v is being added for several sandboxes at once, the last one is %s: try again later", pod.ID, old.ContainerID)
}

// checkIdentity rejects a sandbox if another pod has its name in Kubernetes. While the state of
// Kubernetes is unknown, it accepts all.
func (s *Server) checkIdentity(ctx context.Context, turn *turn, pod *LocalPod) error {
	if kube, _ := s.pods.Pod(pod.ID); kube == nil || kube.Runs(s.pods.node, pod.UID) || s.node.Connected != nil && s.node.Connected() != nil {
		return nil
	}
	turn.start.leave() // others need not wait
	err := s.pods.awaitIdentity(ctx, pod)
	s.noteRefusal(pod, err)
	return err
}

func (s *Server) noteRefusal(pod *LocalPod, err error) {
	if _, stale := errors.AsType[*staleSandboxError](err); stale {
		s.pods.refused.add(pod, err.Error())
	}
}

// awaitRecord waits until the pod is persisted, and unwires it if that fails.
func (s *Server) awaitRecord(ctx context.Context, turn *turn, event *AddPod, pod *LocalPod) error {
	err := event.awaitRecord()
	if err != nil {
		err = errors.Join(err, turn.process(context.WithoutCancel(ctx), newDeletePod(pod)))
	}
	return err
}

func (p *LocalPod) sameAttachment(other *LocalPod) bool {
	return p != nil && p.ContainerID == other.ContainerID && p.NetNS == other.NetNS && p.IfName == other.IfName
}

// Delete unwires a pod. An unknown or replaced container is no error.
func (s *Server) Delete(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	start := time.Now()
	if err := checkAttachment(req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	turn, err := s.enter(ctx, containerKey(req.GetContainerId()))
	if err != nil {
		return nil, err
	}
	defer turn.end()
	s.pods.refused.forget(req.GetContainerId())
	pod, known := s.pods.byContainer(req.GetContainerId(), req.GetInterfaceName())
	if !known {
		return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, controller.Outcome{}, nil)
	}
	event := newDeletePod(pod)
	err = s.remove(ctx, turn, pod, event)
	if ctx.Err() != nil {
		return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, controller.Outcome{}, err)
	}
	return s.finish(ctx, &cni.CNIReply{}, "DEL", req, start, event.outcome, err)
}

// remove unwires a pod. It fails only if the pod stays known. The next resync removes other
// remains.
func (s *Server) remove(ctx context.Context, turn *turn, pod *LocalPod, event *DeletePod) error {
	err := turn.process(ctx, event)
	if err == nil || ctx.Err() != nil {
		return err
	}
	if _, still := s.pods.byContainer(pod.ContainerID, pod.IfName); still {
		return err
	}
	s.log.Error("Removing a pod failed partially", "pod", pod.ID, "container", pod.ContainerID, "error", err)
	return nil
}

// Check compares a pod's network with its configuration.
func (s *Server) Check(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	start := time.Now()
	if err := checkAttachment(req); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	turn, err := s.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer turn.end()
	reply := &cni.CNIReply{}
	pod, known := s.pods.byContainer(req.GetContainerId(), req.GetInterfaceName())
	if !known {
		err := fmt.Errorf("container %s with interface %s: %w", req.GetContainerId(), req.GetInterfaceName(), ErrNotWired)
		return s.finish(ctx, reply, "CHECK", req, start, controller.Outcome{}, err)
	}
	event := newCheckPod(pod)
	err = turn.process(ctx, event)
	if ctx.Err() != nil {
		return s.finish(ctx, reply, "CHECK", req, start, controller.Outcome{}, err)
	}
	reply.Interfaces, reply.Routes = describe(pod.NetNS, event.Interfaces, event.Routes)
	reply.Interfaces = append(s.nodeEnd(pod.ID), reply.Interfaces...)
	return s.finish(ctx, reply, "CHECK", req, start, event.outcome, err)
}

func (s *Server) waitUntilReady(ctx context.Context) error {
	select {
	case <-s.pods.ready:
		return nil
	case <-ctx.Done():
		return status.Error(codes.Unavailable, errStarting.Error())
	}
}

// turn permits a call to push its events.
type turn struct {
	loop controller.EventLoop
	// start is left with the first event, so that calls start in the order of arrival. rest is left
	// at the end, which serialises ADDs and DELs of a container, and ADDs of a pod.
	start, rest *place
	running     *sync.WaitGroup
}

func containerKey(id string) string { return "container " + id }

// enter waits until the agent is ready and earlier calls with a common key have ended.
func (s *Server) enter(ctx context.Context, keys ...string) (*turn, error) {
	places := s.pods.line.enter([]string{"start"}, keys)
	cniserver.Started(ctx)
	t := &turn{loop: s.loop, start: places[0], rest: places[1]}
	err := t.start.wait(ctx)
	if notReady := s.waitUntilReady(ctx); notReady != nil { // also the reason for waiting for others
		t.end()
		return nil, notReady
	}
	if err == nil && !t.rest.first() {
		t.start.leave()
		err = t.rest.wait(ctx)
	}
	if err != nil {
		t.end()
		return nil, cmp.Or(s.unserved(ctx, err), err)
	}
	return t, nil
}

func (t *turn) end() {
	t.start.leave()
	if t.running == nil {
		t.rest.leave()
		return
	}
	go func() {
		t.running.Wait()
		t.rest.leave()
	}()
}

type answeredEvent interface {
	controller.Event
	await(ctx context.Context) error
	Wait(ctx context.Context) error
}

func (t *turn) process(ctx context.Context, event answeredEvent) error {
	// The event outlives a caller that gives up.
	err := t.loop.PushEvent(context.WithoutCancel(ctx), event)
	t.start.leave()
	if err != nil {
		return err
	}
	err = event.await(ctx)
	if err != nil && err == ctx.Err() { // unwrapped: an error of the event is wrapped
		t.running = cmp.Or(t.running, &sync.WaitGroup{})
		t.running.Go(func() { _ = event.Wait(context.WithoutCancel(ctx)) })
	}
	return err
}

func (s *Server) finish(ctx context.Context, reply *cni.CNIReply, command string, req *cni.CNIRequest, start time.Time, o controller.Outcome, err error) (*cni.CNIReply, error) {
	duration := time.Since(start)
	log := s.log.With("command", command, "container", req.GetContainerId(), "args", req.GetExtraArguments(), "duration", duration)
	if refused := s.unserved(ctx, err); refused != nil {
		log.Warn("CNI request refused", "error", refused)
		return nil, refused
	}
	if o.Record != nil {
		reply.EventSeqNum = o.Record.SeqNum
	}
	if txn := o.Txn(); txn != nil {
		reply.SouthboundDurationNs = uint64(txn.SouthboundTime)
	}
	reply.AgentDurationNs = uint64(duration)
	if err != nil {
		log.Error("CNI request failed", "error", err)
		reply.Result, reply.Error = 1, err.Error()
		return reply, nil
	}
	log.Info("CNI request served", "event", reply.EventSeqNum, "southbound", time.Duration(reply.SouthboundDurationNs))
	return reply, nil
}

// unserved returns the status of a request abandoned by the caller or impossible now, or nil.
func (s *Server) unserved(ctx context.Context, err error) error {
	switch cause := ctx.Err(); {
	case err == nil:
		return nil
	case errors.Is(cause, context.Canceled):
		return status.Errorf(codes.Canceled, "the agent did not finish in time: %v", err)
	case cause != nil:
		return status.Errorf(codes.DeadlineExceeded, "the agent did not finish in time: %v", err)
	case isLate(err):
		return status.Error(codes.Unavailable, err.Error())
	case errors.Is(err, controller.ErrQueueFull) || errors.Is(err, controller.ErrClosed) || errors.Is(err, controller.ErrAborting):
		return status.Error(codes.Unavailable, err.Error())
	}
	return nil
}

// isLate reports whether a late view of Kubernetes may be the cause of an error.
func isLate(err error) bool {
	stale, ok := errors.AsType[*staleSandboxError](err)
	return ok && stale.mayChange
}

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
