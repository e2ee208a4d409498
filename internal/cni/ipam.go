package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/contiv/contiv/internal/cni/delegate"
)

// anySubnet replaces usePodCIDR for DEL and GC, where the plugin parses the subnet but finds the
// address by container. So these calls need no agent.
const anySubnet = "192.0.2.0/24"

func (c *call) delegates() bool { return !c.config.IPAM.IsEmpty() }

func (c *call) ipamAdd() (*types100.Result, error) {
	stdin, err := c.ipamConfig()
	if err != nil {
		return nil, err
	}
	start := time.Now()
	r, err := delegate.Add(c.ctx, c.config.IPAM.Type, c.config.CNIVersion, stdin)
	c.timing.IPAM = time.Since(start).Nanoseconds()
	if err != nil {
		return nil, c.ipamError("ADD", err)
	}
	result, err := types100.NewResultFromResult(r)
	if err == nil && len(result.IPs) == 0 {
		err = errors.New("its result has no address")
	}
	if err == nil {
		var data []byte
		if len(result.IPs) == 1 {
			data, err = json.Marshal(result.IPs[0])
		} else {
			data, err = json.Marshal(result.IPs)
		}
		c.request.IPAMData = string(data)
	}
	if err != nil {
		return nil, errors.Join(c.ipamError("ADD", err), c.ipamUndo())
	}
	return result, nil
}

// ipamUndo releases the address of a failed ADD. It has its own timeout.
func (c *call) ipamUndo() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), undoTimeout)
	defer cancel()
	if _, err := delegate.Call(ctx, "DEL", c.config.IPAM.Type, c.ipamConfigWith(anySubnet)); err != nil {
		c.log.Error("Releasing the address of a failed ADD failed; DEL releases it", "err", err)
		return c.ipamError("DEL", err)
	}
	return nil
}

// ipamDo runs DEL, CHECK or GC, which return no result.
func (c *call) ipamDo(command string) error {
	start := time.Now()
	_, err := delegate.Call(c.ctx, command, c.config.IPAM.Type, c.ipamConfigWith(anySubnet))
	c.timing.IPAM = time.Since(start).Nanoseconds()
	return c.ipamError(command, err)
}

func (c *call) ipamError(command string, err error) error {
	if err == nil {
		return nil
	}
	message := fmt.Sprintf("%s of the IPAM plugin %q failed", command, c.config.IPAM.Type)
	if c.ctx.Err() != nil {
		return types.NewError(types.ErrTryAgainLater, message, fmt.Sprintf("not within %v", deadlines[c.timing.Command]))
	}
	var said *types.Error
	if errors.As(err, &said) && said.Code != 0 {
		return types.NewError(said.Code, message, strings.TrimSpace(said.Msg+" "+said.Details))
	}
	return types.NewError(ErrAgent, message, err.Error())
}

func (c *call) ipamConfig() ([]byte, error) {
	if !asksForPodCIDR(c.config.network["ipam"]) {
		return c.config.stdin, nil
	}
	reply, err := AgentStatus(c.ctx, c.config.GRPCServer)
	if err != nil {
		return nil, err
	}
	if len(reply.PodCIDRs) == 0 {
		return nil, types.NewError(types.ErrTryAgainLater, "the pod subnet of this node is not known",
			fmt.Sprintf(`"ipam" asks for %q, but Kubernetes assigned none to the node (spec.podCIDR), or the agent does not know it yet`, usePodCIDR))
	}
	return c.ipamConfigWith(reply.PodCIDRs...), nil
}

func (c *call) ipamConfigWith(subnets ...string) []byte {
	if !asksForPodCIDR(c.config.network["ipam"]) {
		return c.config.stdin
	}
	network := maps.Clone(c.config.network)
	network["ipam"] = withPodCIDRs(network["ipam"], subnets)
	data, err := json.Marshal(network)
	if err != nil {
		return c.config.stdin // stdin was valid JSON
	}
	return data
}
