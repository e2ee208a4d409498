package cni

import (
	"errors"
	"fmt"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	api "github.com/contiv/contiv/api/contiv/cni"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ErrAgent is the CNI error code for what the agent was asked and failed to do.
const ErrAgent uint = 100

// Plugin serves one call of the runtime.
type Plugin struct{ start time.Time }

// New returns the plugin of a process that began at start.
func New(start time.Time) *Plugin { return &Plugin{start: start} }

// Funcs returns the commands that the plugin implements.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{Add: p.add, Del: p.del, Check: p.check}
}

// add wires the container and prints the result.
func (p *Plugin) add(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	call := p.begin("ADD", config, args)
	reply, err := call.do(api.RemoteCNIClient.Add)
	if err != nil {
		return call.end(cniError(err))
	}
	result, err := buildResult(config, reply)
	if err != nil {
		return call.end(err)
	}
	return call.end(types.PrintResult(result, config.CNIVersion))
}

// del unwires the container.
func (p *Plugin) del(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	call := p.begin("DEL", config, args)
	_, err = call.do(api.RemoteCNIClient.Delete)
	if errors.Is(err, errUnreachable) {
		call.log.Warn("DEL without the agent: it drops the pod when it starts", "err", err)
		err = nil
	}
	return call.end(cniError(err))
}

// check compares the container's network with what was configured.
func (p *Plugin) check(args *skel.CmdArgs) error {
	config, err := parseConfig(args.StdinData)
	if err != nil {
		return err
	}
	if config.prev == nil {
		return types.NewError(types.ErrInvalidNetworkConfig, `"prevResult" is missing`, "CHECK compares with the result of ADD, which the runtime must give")
	}
	call := p.begin("CHECK", config, args)
	reply, err := call.do(api.RemoteCNIClient.Check)
	if err == nil {
		if err = compare(config.prev, reply); err != nil {
			err = types.NewError(ErrAgent, "the container's network is not the one that ADD reported", err.Error())
		}
	}
	return call.end(cniError(err))
}

// cniError translates an error into one with a CNI error code.
func cniError(err error) error {
	if err == nil {
		return nil
	}
	var known *types.Error
	if errors.As(err, &known) {
		return known
	}
	if errors.Is(err, errUnreachable) {
		return types.NewError(types.ErrTryAgainLater, errUnreachable.Error(), err.Error())
	}
	message := err.Error()
	s, ok := status.FromError(err)
	if ok {
		message = s.Message()
	}
	switch s.Code() {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.ResourceExhausted:
		return types.NewError(types.ErrTryAgainLater, "the Contiv agent cannot serve the request now", message)
	case codes.InvalidArgument:
		return types.NewError(types.ErrInvalidEnvironmentVariables, "the Contiv agent does not accept the request", message)
	}
	return types.NewError(ErrAgent, "the Contiv agent failed", message)
}

// replyError is what the agent says in its reply.
func replyError(command string, reply *api.CNIReply) error {
	if reply.GetResult() == 0 {
		return nil
	}
	return types.NewError(ErrAgent, fmt.Sprintf("the Contiv agent failed to %s the container's network", verbs[command]), reply.GetError())
}

var verbs = map[string]string{"ADD": "add", "DEL": "remove", "CHECK": "confirm"}
