package cni

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	api "github.com/contiv/contiv/api/contiv/cni"
)

// TimingEnv names the environment variable with a file to which each call
// appends a JSON line of a Timing.
const TimingEnv = "CONTIV_CNI_TIMING"

// Timing says where the time of a call went, in nanoseconds.
type Timing struct {
	Command   string `json:"command"`
	Container string `json:"container"`
	// Total is the time of the process, from the start of main.
	Total int64 `json:"total_ns"`
	// GRPC is the time from connecting to the reply; Agent the part of it that
	// the agent reports, and Southbound the part of that spent in the vswitch.
	GRPC       int64 `json:"grpc_ns"`
	Agent      int64 `json:"agent_ns"`
	Southbound int64 `json:"southbound_ns"`
}

// call is one call, with what is recorded of it.
type call struct {
	start   time.Time
	config  *Config
	request *api.CNIRequest
	timing  Timing
	log     *slog.Logger
	logFile *os.File
}

func (p *Plugin) begin(command string, config *Config, args *skel.CmdArgs) *call {
	c := &call{
		start:  p.start,
		config: config,
		request: &api.CNIRequest{
			Version:          config.CNIVersion,
			ContainerId:      args.ContainerID,
			NetworkNamespace: args.Netns,
			InterfaceName:    args.IfName,
			ExtraNwConfig:    string(args.StdinData),
			ExtraArguments:   args.Args,
		},
		timing: Timing{Command: command, Container: args.ContainerID},
		log:    slog.New(slog.DiscardHandler),
	}
	// Without a log, the call is as good.
	if file, err := os.OpenFile(config.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
		c.logFile = file
		c.log = slog.New(slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug})).
			With("command", command, "container", args.ContainerID, "interface", args.IfName)
	}
	c.log.Debug("request", "netns", args.Netns, "args", args.Args, "version", config.CNIVersion)
	return c
}

// do makes the call; what the agent refuses or fails to do is an error.
func (c *call) do(m method) (*api.CNIReply, error) {
	start := time.Now()
	reply, err := callAgent(c.config.GRPCServer, m, c.request)
	c.timing.GRPC = time.Since(start).Nanoseconds()
	c.timing.Agent = int64(reply.GetAgentDurationNs())
	c.timing.Southbound = int64(reply.GetSouthboundDurationNs())
	if err != nil {
		return nil, err
	}
	return reply, replyError(c.timing.Command, reply)
}

// end records the outcome, and returns it.
func (c *call) end(err error) error {
	c.timing.Total = time.Since(c.start).Nanoseconds()
	if err != nil {
		c.log.Error("failed", "err", err, "duration", time.Duration(c.timing.Total))
	} else {
		c.log.Info("done", "duration", time.Duration(c.timing.Total), "agent", time.Duration(c.timing.Agent))
	}
	if c.logFile != nil {
		c.logFile.Close()
	}
	c.writeTiming()
	return err
}

func (c *call) writeTiming() {
	path := os.Getenv(TimingEnv)
	if path == "" {
		return
	}
	line, err := json.Marshal(c.timing)
	if err != nil {
		return
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer file.Close()
	file.Write(append(line, '\n'))
}
