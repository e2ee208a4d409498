package cni

import (
	"encoding/json"
	"errors"

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
	// EtcdEndpoints is accepted for configurations of older versions; unused: the
	// agent knows the node's pod subnet.
	EtcdEndpoints string `json:"etcdEndpoints"`

	// stdin is the configuration as given, network its fields.
	stdin   []byte
	network map[string]any

	// prev is the result of the plugins before this one; nil if there are none.
	prev *types100.Result
}

// parseConfig reads the JSON that the runtime gave on stdin.
func parseConfig(data []byte) (*Config, error) {
	c := &Config{GRPCServer: DefaultServer, LogFile: DefaultLogFile, stdin: data}
	if err := errors.Join(json.Unmarshal(data, c), json.Unmarshal(data, &c.network)); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration of contiv-cni is no valid JSON", err.Error())
	}
	if c.CNIVersion == "" {
		c.CNIVersion = "0.1.0" // as the specification says
	}
	if c.GRPCServer == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `"grpcServer" is empty`, "give the path of the agent's socket, or leave it out for "+DefaultServer)
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

// validAttachments are those that GC must keep. An absent list is an error, and
// not one of which all are garbage.
func (c *Config) validAttachments() ([]types.GCAttachment, error) {
	list, given := c.network["cni.dev/valid-attachments"]
	if given && list == nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is null`,
			"GC removes what is not in that list: give [] if there is nothing to keep")
	}
	if given {
		return c.ValidAttachments, nil
	}
	return nil, types.NewError(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is missing`,
		"GC removes what is not in that list, which the runtime must give")
}
