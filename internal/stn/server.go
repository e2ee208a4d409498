package stn

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/internal/stn/journal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// Serve serves stn.STN and stn.Custody until ctx ends. Replies contain the error of a failed
// request.
func (k *Keeper) Serve(ctx context.Context, l net.Listener) error {
	s := grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: 5 * time.Second}))
	stn.RegisterSTNServer(s, stnServer{keeper: k})
	stn.RegisterCustodyServer(s, custodyServer{keeper: k, end: ctx.Done()})
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Serve(l); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

type stnServer struct {
	stn.UnimplementedSTNServer
	keeper *Keeper
}

func (s stnServer) StealInterface(_ context.Context, req *stn.STNRequest) (*stn.STNReply, error) {
	e, err := s.keeper.Steal(req.GetInterfaceName(), req.GetDhcpEnabled())
	return reply(e, err), nil
}

func (s stnServer) ReleaseInterface(_ context.Context, req *stn.STNRequest) (*stn.STNReply, error) {
	return reply(nil, s.keeper.Release(req.GetInterfaceName())), nil
}

func (s stnServer) StolenInterfaceInfo(_ context.Context, req *stn.STNRequest) (*stn.STNReply, error) {
	e := s.keeper.Claimed(req.GetInterfaceName())
	if e == nil {
		return reply(nil, errors.New("the interface is not stolen")), nil
	}
	return reply(e, nil), nil
}

// reply describes a card; it is empty for nil.
func reply(e *journal.Entry, err error) *stn.STNReply {
	r := &stn.STNReply{}
	if err != nil {
		r.Result, r.Error = 1, err.Error()
		return r
	}
	if e == nil {
		return r
	}
	r.InterfaceName, r.PciAddress = e.Name, e.PCI
	r.KernelDriver, r.MacAddress, r.Mtu = e.State.Driver, e.State.MAC, uint32(e.State.MTU)
	r.DnsServers = Servers(e.ResolvConf)
	for _, p := range e.State.Prefixes() {
		r.IpAddresses = append(r.IpAddresses, p.String())
	}
	for _, route := range e.State.MainRoutes() {
		m := &stn.STNReply_Route{Metric: route.Metric}
		if route.Destination.Bits() > 0 || route.Destination.Addr().Is6() {
			m.DestinationSubnet = route.Destination.String()
		}
		if route.NextHop.IsValid() {
			m.NextHopIp = route.NextHop.String()
		}
		r.Routes = append(r.Routes, m)
	}
	return r
}

type custodyServer struct {
	stn.UnimplementedCustodyServer
	keeper *Keeper
	end    <-chan struct{}
}

// Attend ends with the stream.
func (s custodyServer) Attend(stream grpc.BidiStreamingServer[stn.Forwarding, stn.Holding]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	r := s.keeper.Attend(first.GetInterfaceName())
	if r == nil {
		return status.Errorf(codes.FailedPrecondition, "interface %q is not stolen: steal it first", first.GetInterfaceName())
	}
	defer r.Leave()
	told(r, first)
	received := make(chan error, 1)
	go func() {
		for {
			next, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			told(r, next)
		}
	}()
	for {
		select {
		case err := <-received:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-s.end:
			return status.Error(codes.Unavailable, "contiv-stn ends")
		case <-r.Changed:
			if err := stream.Send(holding(r.Entry())); err != nil {
				return err
			}
		}
	}
}

func told(r *Reporter, f *stn.Forwarding) {
	if f.GetWaiting() && !f.GetReady() {
		r.Wait()
		return
	}
	r.Report(f.GetReady(), f.GetReason(), f.GetIpVersions()...)
}

func holding(e *journal.Entry) *stn.Holding {
	h := &stn.Holding{InterfaceName: e.Name, Holder: stn.Holding_HOST, Reason: e.Reason, Info: reply(e, nil)}
	if e.Holder == journal.VSwitch {
		h.Holder = stn.Holding_VSWITCH
	}
	return h
}
