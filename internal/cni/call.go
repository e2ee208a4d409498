package cni

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/lib/logline"
)

// deadlines bound the whole call, including the delegated IPAM plugin. They are shorter than the
// timeouts of runtimes.
var deadlines = map[string]time.Duration{
	"ADD": 60 * time.Second, "DEL": 60 * time.Second, "GC": 60 * time.Second,
	"CHECK": 30 * time.Second, "STATUS": 5 * time.Second,
}

const undoTimeout = 10 * time.Second

// TimingEnv is the environment variable that names a file. Each call appends a Timing to it as a
// JSON line.
const TimingEnv = "CONTIV_CNI_TIMING"

// Timing is the breakdown of a call's duration, in nanoseconds.
type Timing struct {
	Command   string `json:"command"`
	Container string `json:"container"`
	// Total is measured from the start of main.
	Total int64 `json:"total_ns"`
	// RPC is measured from connecting to the reply. Agent is the agent's part of RPC, and
	// Southbound the vswitch's part of Agent.
	RPC        int64 `json:"rpc_ns"`
	Agent      int64 `json:"agent_ns"`
	Southbound int64 `json:"southbound_ns"`
	// IPAM is spent in the delegated IPAM plugin.
	IPAM int64 `json:"ipam_ns,omitempty"`
}

type call struct {
	ctx     context.Context
	cancel  context.CancelFunc
	start   time.Time
	config  *Config
	request *cniwire.CNIRequest
	timing  Timing
	log     *slog.Logger
	logFile *os.File
}

func (p *Plugin) begin(command string, config *Config, args *skel.CmdArgs) *call {
	ctx, cancel := context.WithTimeout(context.Background(), deadlines[command])
	c := &call{
		ctx: ctx, cancel: cancel,
		start:  p.start,
		config: config,
		request: &cniwire.CNIRequest{
			Version:          config.CNIVersion,
			ContainerID:      args.ContainerID,
			NetworkNamespace: args.Netns,
			InterfaceName:    args.IfName,
			ExtraNwConfig:    string(args.StdinData),
			ExtraArguments:   args.Args,
			IPAMType:         config.IPAM.Type,
		},
		timing: Timing{Command: command, Container: logline.Cut(args.ContainerID)},
		log:    slog.New(slog.DiscardHandler),
	}
	if file, err := openLog(config.LogFile); err == nil { // a missing log does not fail the call
		c.logFile = file
		c.log = logline.New(file, slog.LevelDebug).With("command", command)
		if args.ContainerID != "" {
			c.log = c.log.With("container", args.ContainerID, "interface", args.IfName)
		}
	}
	if command != "STATUS" {
		c.log.Debug("request", "netns", args.Netns, "args", args.Args, "version", config.CNIVersion)
	}
	return c
}

// maxLogSize is the size in bytes at which the log is renamed to <log>.1.
const maxLogSize = 8 << 20

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxLogSize {
		os.Rename(path, path+".1")
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

func (c *call) agent(method string, request, reply any) error {
	start := time.Now()
	err := callAgent(c.ctx, c.config.GRPCServer, method, request, reply)
	c.timing.RPC += time.Since(start).Nanoseconds()
	return err
}

// do makes a call for the attachment. A refusal or failure in the reply becomes an error.
func (c *call) do(method string) (*cniwire.CNIReply, error) {
	reply := &cniwire.CNIReply{}
	err := c.agent(method, c.request, reply)
	c.timing.Agent = int64(reply.AgentDurationNs)
	c.timing.Southbound = int64(reply.SouthboundDurationNs)
	if err != nil {
		return nil, err
	}
	return reply, replyError(c.timing.Command, reply)
}

func (c *call) end(err error) error {
	c.cancel()
	if said, ok := errors.AsType[*types.Error](err); ok { // runtimes log it, and Kubernetes shows it in events
		said.Msg, said.Details = logline.Cut(said.Msg), logline.Cut(said.Details)
	}
	c.timing.Total = time.Since(c.start).Nanoseconds()
	if err != nil {
		c.log.Error("failed", "err", err, "duration", time.Duration(c.timing.Total))
	} else if c.timing.Command != "STATUS" {
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
