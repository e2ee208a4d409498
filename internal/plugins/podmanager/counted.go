package podmanager

import (
	"context"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
)

type counted struct {
	cni.RemoteCNIServer
	tell func(command string, took time.Duration, failed bool) // may be nil
}

func (c counted) Add(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	return c.count(ctx, "ADD", req, c.RemoteCNIServer.Add)
}

func (c counted) Delete(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	return c.count(ctx, "DEL", req, c.RemoteCNIServer.Delete)
}

func (c counted) Check(ctx context.Context, req *cni.CNIRequest) (*cni.CNIReply, error) {
	return c.count(ctx, "CHECK", req, c.RemoteCNIServer.Check)
}

func (c counted) count(ctx context.Context, command string, req *cni.CNIRequest, call func(context.Context, *cni.CNIRequest) (*cni.CNIReply, error)) (*cni.CNIReply, error) {
	start := time.Now()
	reply, err := call(ctx, req)
	if c.tell != nil {
		c.tell(command, time.Since(start), err != nil || reply.GetResult() != 0)
	}
	return reply, err
}
