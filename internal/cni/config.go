package cni

import (
	"encoding/json"
	"errors"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

const (
	DefaultServer  = "/var/run/contiv/cni.sock"
	DefaultLogFile = "/var/run/contiv/cni.log"
)

// Config is the network configuration of the plugin.
type Config struct {
	types.PluginConf
	// GRPCServer is the path of the agent's unix socket, or host:port. The name is that of Contiv/VPP;
	// the protocol is that of package cniwire.
	GRPCServer string `json:"grpcServer"`
	// LogFile is created with mode 0600. It is optional.
	LogFile string `json:"logFile"`
	// EtcdEndpoints is unused. It is accepted for configurations of older versions.
	EtcdEndpoints string `json:"etcdEndpoints"`

	stdin   []byte
	network map[string]any

	// prev is the result of the preceding plugins in the chain, or nil.
	prev *types100.Result
}

func parseConfig(data []byte) (*Config, error) {
	c := &Config{GRPCServer: DefaultServer, LogFile: DefaultLogFile, stdin: data}
	if err := errors.Join(json.Unmarshal(data, c), json.Unmarshal(data, &c.network)); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "network configuration of contiv-cni is not valid JSON", err.Error())
	}
	if c.CNIVersion == "" {
		c.CNIVersion = "0.1.0" // default of the specification
	}
	if c.GRPCServer == "" {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `"grpcServer" is empty`, "set it to the path of the agent's socket, or remove it for "+DefaultServer)
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

// validAttachments returns the attachments that GC must keep. A missing list is an error, because
// an empty one would remove everything.
func (c *Config) validAttachments() ([]types.GCAttachment, error) {
	list, given := c.network["cni.dev/valid-attachments"]
	if given && list == nil {
		return nil, types.NewError(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is null`,
			"GC removes all attachments that are not in the list: use [] to keep none")
	}
	if given {
		return c.ValidAttachments, nil
	}
	return nil, types.NewError(types.ErrInvalidNetworkConfig, `"cni.dev/valid-attachments" is missing`,
		"GC removes all attachments that are not in the list, which the runtime must set")
}
