package podmanager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/api/contiv/cni"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type attachment struct{ containerID, ifName string }

// CollectGarbage unwires pods of the network that are not in the list of valid attachments, because
// their DEL was never called. It keeps pods of other or unknown networks.
func (s *Server) CollectGarbage(ctx context.Context, req *cni.GarbageRequest) (*cni.GarbageReply, error) {
	if req.GetNetwork() == "" {
		return nil, status.Error(codes.InvalidArgument, `network is empty: it is the "name" of the network configuration`)
	}
	// Do not wait: the list does not contain pods added meanwhile.
	if err := s.notReady(); err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	valid := make(map[attachment]bool)
	for _, a := range req.GetValidAttachments() {
		valid[attachment{a.GetContainerId(), a.GetInterfaceName()}] = true
	}
	var stale []*LocalPod
	for _, p := range s.pods.LocalPods() {
		if p.Network == req.GetNetwork() && !valid[attachment{p.ContainerID, p.IfName}] {
			stale = append(stale, p)
		}
	}
	s.pods.refused.remove(func(id, network string) bool {
		return network == req.GetNetwork() && !slices.ContainsFunc(req.GetValidAttachments(), func(a *cni.Attachment) bool { return a.GetContainerId() == id })
	})
	slices.SortFunc(stale, func(a, b *LocalPod) int { return strings.Compare(a.ID.String(), b.ID.String()) })

	reply := &cni.GarbageReply{}
	var errs []error
	for _, p := range stale {
		if refused := s.unserved(ctx, ctx.Err()); refused != nil {
			return nil, refused // the caller has gone: the next call collects the rest
		}
		s.log.Info("Removing a pod unknown to the runtime", "pod", p.ID, "container", p.ContainerID, "network", p.Network)
		if err := s.removeGarbage(ctx, p); err != nil {
			if refused := s.unserved(ctx, err); refused != nil {
				return nil, refused
			}
			errs = append(errs, fmt.Errorf("pod %v, container %s: %w", p.ID, p.ContainerID, err))
			continue
		}
		reply.Removed = append(reply.Removed, &cni.Attachment{ContainerId: p.ContainerID, InterfaceName: p.IfName})
	}
	if err := errors.Join(errs...); err != nil {
		reply.Result, reply.Error = 1, err.Error()
	}
	return reply, nil
}

func (s *Server) removeGarbage(ctx context.Context, p *LocalPod) error {
	turn, err := s.enter(ctx, containerKey(p.ContainerID))
	if err != nil {
		return err
	}
	defer turn.end()
	return s.remove(ctx, turn, p, newDeletePod(p))
}
