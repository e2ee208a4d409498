package cni

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/logline"
)

// deadlines of the calls, connecting and the delegated IPAM plugin included.
// Runtimes wait longer.
var deadlines = map[string]time.Duration{
	"ADD": 60 * time.Second, "DEL": 60 * time.Second, "GC": 60 * time.Second,
	"CHECK": 30 * time.Second, "STATUS": 5 * time.Second,
}

// undoTimeout is the time for releasing the address of an ADD that failed.
const undoTimeout = 10 * time.Second

// TimingEnv names the environment variable with a file to which each call
// appends a JSON line of a Timing.
const TimingEnv = "CONTIV_CNI_TIMING"

// Timing says where the time of a call went, in nanoseconds.
type Timing struct {
	Command   string `json:"command"`
	Container string `json:"container"`
	// Total is the time of the process, from the start of main.
	Total int64 `json:"total_ns"`
	// RPC is the time from connecting to the reply; Agent the part of it that
	// the agent reports, and Southbound the part of that spent in the vswitch.
	RPC        int64 `json:"rpc_ns"`
	Agent      int64 `json:"agent_ns"`
	Southbound int64 `json:"southbound_ns"`
	// IPAM is the time of the delegated IPAM plugin.
	IPAM int64 `json:"ipam_ns,omitempty"`
}

// call is one call, with what is recorded of it.
type call struct {
	plugin  *Plugin
	ctx     context.Context
	cancel  context.CancelFunc
	start   time.Time
	config  *Config
	request *cniwire.CNIRequest
	timing  Timing
	log     *slog.Logger
	logFile *os.File
	lines   *strings.Builder // of the log, in the agent
}

func (p *Plugin) begin(command string, config *Config, args *skel.CmdArgs) *call {
	ctx, cancel := context.WithTimeout(p.ctx, deadlines[command])
	c := &call{
		ctx: ctx, cancel: cancel,
		plugin: p,
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
	if lines := c.openLog(); lines != nil {
		c.log = logline.New(lines, slog.LevelDebug).With("command", command)
		if args.ContainerID != "" {
			c.log = c.log.With("container", args.ContainerID, "interface", args.IfName)
		}
	}
	if command != "STATUS" { // runtimes ask every few seconds
		c.log.Debug("request", "netns", args.Netns, "args", args.Args, "version", config.CNIVersion)
	}
	return c
}

// openLog returns where lines of the log go; nil if that is nowhere: without a log, the call is as good.
func (c *call) openLog() io.Writer {
	if c.plugin.outcome != nil {
		c.plugin.outcome.LogFile = c.config.LogFile
		c.lines = &strings.Builder{}
		return c.lines
	}
	file, err := openLog(c.config.LogFile)
	if err != nil {
		return nil
	}
	c.logFile = file
	return file
}

// maxLogSize is when the log is put aside as <log>.1.
const maxLogSize = 8 << 20

func openLog(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() > maxLogSize {
		os.Rename(path, path+".1")
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// agent makes a call of the agent.
func (c *call) agent(method string, request, reply any) error {
	start := time.Now()
	var err error
	if agent := c.plugin.agent; agent != nil {
		ctx, cancel := context.WithTimeout(c.ctx, agentTime(c.ctx))
		err = agent(ctx, method, request, reply)
		cancel()
	} else {
		err = callAgent(c.ctx, c.config.GRPCServer, method, request, reply)
	}
	c.timing.RPC += time.Since(start).Nanoseconds()
	return err
}

// do makes a call about the attachment; what the agent refuses or fails to do is an
// error.
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

// end records the outcome, and returns it.
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
	if c.plugin.outcome != nil {
		c.plugin.outcome.Log = c.lines.String()
		c.plugin.outcome.Timing = c.timing.unfinished()
	} else {
		c.writeTiming()
	}
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
