package cni

import (
	"encoding/json"
	"fmt"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// Defaults of the network configuration.
const (
	DefaultServer  = "/var/run/contiv/cni.sock"
	DefaultLogFile = "/var/run/contiv/cni.log"
)

// Config is the network configuration of the plugin.
type Config struct {
	types.PluginConf
	// GRPCServer is the path of the agent's unix socket, or host:port.
	GRPCServer string `json:"grpcServer"`
	// LogFile is created with mode 0600. Without it, the plugin works as well.
	LogFile string `json:"logFile"`
	// EtcdEndpoints is accepted for configurations of older versions; unused.
	EtcdEndpoints string `json:"etcdEndpoints"`

	// prev is the result of the plugins before this one; nil if there are none.
	prev *types100.Result
}

// parseConfig reads the JSON that the runtime gave on stdin.
func parseConfig(data []byte) (*Config, error) {
	c := &Config{GRPCServer: DefaultServer, LogFile: DefaultLogFile}
	if err := json.Unmarshal(data, c); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration of contiv-cni is no valid JSON", err.Error())
	}
	if c.CNIVersion == "" {
		c.CNIVersion = "0.1.0" // as the specification says
	}
	if c.GRPCServer == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `"grpcServer" is empty`, "give the path of the agent's socket, or leave it out for "+DefaultServer)
	}
	if !c.IPAM.IsEmpty() {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, fmt.Sprintf("ipam type %q is not supported", c.IPAM.Type),
			`Contiv assigns the addresses itself: remove "ipam" from the configuration`)
	}
	if c.RawPrevResult == nil {
		return c, nil
	}
	if err := version.ParsePrevResult(&c.PluginConf); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, `"prevResult" cannot be read`, err.Error())
	}
	prev, err := types100.NewResultFromResult(c.PrevResult)
	if err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, `"prevResult" cannot be converted`, err.Error())
	}
	c.prev = prev
	return c, nil
}
