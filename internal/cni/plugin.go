package cni

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/cni/delegate"
)

// ErrAgent is the CNI error code of a request that the agent failed to carry out.
const ErrAgent uint = 100

// Plugin serves one call of the runtime.
type Plugin struct{ start time.Time }

// New returns the plugin of a process that began at start.
func New(start time.Time) *Plugin { return &Plugin{start: start} }

// Funcs returns the commands of the plugin.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{Add: p.add, Del: p.del, Check: p.check, Status: p.status, GC: p.gc}
}

func (p *Plugin) add(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	call := p.begin("ADD", config, args)
	result, err := call.add()
	if err != nil {
		return call.end(cniError(err))
	}
	return call.end(types.PrintResult(result, config.CNIVersion))
}

func (c *call) add() (*types100.Result, error) {
	var assigned *types100.Result
	if c.delegates() {
		var err error
		if assigned, err = c.ipamAdd(); err != nil {
			return nil, err
		}
	}
	reply, err := c.do(cniwire.Add)
	if err != nil {
		if c.delegates() {
			c.ipamUndo()
		}
		return nil, err
	}
	return buildResult(c.config, assigned, reply)
}

func (p *Plugin) del(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	call := p.begin("DEL", config, args)
	_, err = call.do(cniwire.Delete)
	if errors.Is(err, errUnreachable) {
		call.log.Warn("Agent not reachable; it removes the pod when it starts", "err", err)
		call.recordMissedDel()
		err = nil
	}
	if err == nil && call.delegates() {
		err = call.ipamDo("DEL")
	}
	return call.end(cniError(err))
}

func (p *Plugin) check(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if config.prev == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, `"prevResult" is missing`, "CHECK requires the result of ADD from the runtime")
	}
	call := p.begin("CHECK", config, args)
	if call.delegates() {
		err = call.ipamDo("CHECK")
	}
	var reply *cniwire.CNIReply
	if err == nil {
		reply, err = call.do(cniwire.Check)
	}
	if err == nil {
		if err = compare(config.prev, reply); err != nil {
			err = types.NewError(ErrAgent, "the container's network is not the one that ADD reported", err.Error())
		}
	}
	return call.end(cniError(err))
}

func (p *Plugin) status(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	call := p.begin("STATUS", config, args)
	var reply cniwire.StatusReply
	if err = call.agent(cniwire.Status, &cniwire.StatusRequest{}, &reply); err == nil && !reply.Ready {
		err = errors.New(reply.Reason)
	}
	if err != nil {
		return call.end(types.NewError(types.ErrPluginNotAvailable, "Contiv cannot connect pods on this node now", err.Error()))
	}
	if call.delegates() {
		stdin, err := call.ipamConfig()
		if err == nil {
			_, err = delegate.Call(call.ctx, "STATUS", config.IPAM.Type, stdin)
		}
		if err != nil {
			return call.end(types.NewError(types.ErrPluginNotAvailable, fmt.Sprintf("the IPAM plugin %q cannot assign addresses now", config.IPAM.Type), err.Error()))
		}
	}
	return call.end(nil)
}

func (p *Plugin) gc(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	valid, err := config.validAttachments()
	if err != nil {
		return err
	}
	call := p.begin("GC", config, args)
	request := &cniwire.GarbageRequest{Network: config.Name}
	for _, a := range valid {
		request.ValidAttachments = append(request.ValidAttachments, cniwire.Attachment{ContainerID: a.ContainerID, InterfaceName: a.IfName})
	}
	var reply cniwire.GarbageReply
	err = call.agent(cniwire.CollectGarbage, request, &reply)
	for _, a := range reply.Removed {
		call.log.Info("removed", "container", a.ContainerID, "interface", a.InterfaceName)
	}
	if err == nil && reply.Result != 0 {
		err = types.NewError(ErrAgent, "the Contiv agent failed to remove garbage", reply.Error)
	}
	if call.delegates() && err == nil {
		err = call.ipamDo("GC")
	}
	return call.end(cniError(err))
}

func cniError(err error) error {
	if err == nil {
		return nil
	}
	var known *types.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, errUnreachable) {
		return types.NewError(types.ErrTryAgainLater, errUnreachable.Error(), strings.TrimPrefix(err.Error(), errUnreachable.Error()+" "))
	}
	var refused *cniwire.Error
	if errors.As(err, &refused) {
		switch refused.Code {
		case cniwire.Unavailable, cniwire.DeadlineExceeded, cniwire.Canceled, cniwire.ResourceExhausted:
			return types.NewError(types.ErrTryAgainLater, "the Contiv agent cannot serve the request now", refused.Message)
		case cniwire.InvalidArgument:
			return types.NewError(types.ErrInvalidEnvironmentVariables, "the Contiv agent does not accept the request", refused.Message)
		}
	}
	return types.NewError(ErrAgent, "the Contiv agent failed", err.Error())
}

func replyError(command string, reply *cniwire.CNIReply) error {
	if reply.Result == 0 {
		return nil
	}
	return types.NewError(ErrAgent, fmt.Sprintf("the Contiv agent failed to %s the container's network", verbs[command]), reply.Error)
}

var verbs = map[string]string{"ADD": "add", "DEL": "remove", "CHECK": "confirm"}
