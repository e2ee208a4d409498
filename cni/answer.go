package cni

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/contiv/contiv/api/contiv/cniwire"
)

// Agent calls one of its own methods; see cniwire. Calls that are not served return a
// *cniwire.Error.
type Agent func(ctx context.Context, method string, request, reply any) error

// Answer serves, in the agent, an unmodified call of contiv-cni. It declines calls that the CNI
// library rejects and calls that involve other plugins.
func Answer(ctx context.Context, invocation *cniwire.Invocation, agent Agent) *cniwire.Outcome {
	p := &Plugin{start: time.Now(), ctx: ctx, agent: agent, outcome: &cniwire.Outcome{}}
	serve := map[string]func(*skel.CmdArgs) error{"ADD": p.add, "DEL": p.del, "CHECK": p.check}[invocation.Command]
	if serve == nil || !plain(invocation) {
		return &cniwire.Outcome{Declined: true}
	}
	err := serve(&skel.CmdArgs{
		ContainerID: invocation.ContainerID, Netns: invocation.Netns, IfName: invocation.IfName,
		Args: invocation.Args, Path: invocation.Path, StdinData: []byte(invocation.Stdin),
	})
	if err == nil {
		return p.outcome
	}
	said, ok := errors.AsType[*types.Error](err)
	if !ok {
		said = types.NewError(types.ErrInternal, err.Error(), "") // as in the CNI library
	}
	data, err := json.MarshalIndent(said, "", "    ")
	if err != nil {
		return &cniwire.Outcome{Declined: true}
	}
	p.outcome.Failed, p.outcome.Stdout = true, string(data)
	return p.outcome
}

// plain reports whether the CNI library would accept the call and no other plugin is involved.
func plain(i *cniwire.Invocation) bool {
	config, err := parseConfig([]byte(i.Stdin))
	if err != nil || !config.IPAM.IsEmpty() || config.GRPCServer != i.Server {
		return false
	}
	if i.Path == "" || i.Netns == "" && i.Command != "DEL" ||
		utils.ValidateContainerID(i.ContainerID) != nil || utils.ValidateInterfaceName(i.IfName) != nil || utils.ValidateNetworkName(config.Name) != nil {
		return false
	}
	known := slices.Contains(version.All.SupportedVersions(), config.CNIVersion)
	if i.Command == "CHECK" && known {
		known, err = version.GreaterThanOrEqualTo(config.CNIVersion, "0.4.0")
	}
	return known && err == nil
}

// unfinished returns the start of the JSON object, without the fields that only contiv-cni can
// fill.
func (t *Timing) unfinished() string {
	data, err := json.Marshal(struct {
		Command    string `json:"command"`
		Container  string `json:"container"`
		Agent      int64  `json:"agent_ns"`
		Southbound int64  `json:"southbound_ns"`
	}{t.Command, t.Container, t.Agent, t.Southbound})
	if err != nil {
		return ""
	}
	return string(data[:len(data)-1])
}
