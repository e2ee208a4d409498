package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/stn/client"
	"github.com/spf13/pflag"
)

// theft is what contiv-stn is to take from the host for VPP.
type theft struct {
	name   string // "": the first network card
	dhcp   bool
	socket string
}

// theftBy reads from the agent's configuration whether there is a theft; nil if not.
func theftBy(agentFlags []string) (*theft, error) {
	f := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	file := f.String("contiv-config", cmp.Or(os.Getenv("CONTIV_AGENT_CONTIV_CONFIG"), os.Getenv("CONTIV_CONFIG"), existing("", "/etc/contiv/contiv.conf")), "")
	node := f.String("node-name", cmp.Or(os.Getenv("CONTIV_AGENT_NODE_NAME"), os.Getenv("MICROSERVICE_LABEL")), "")
	if err := f.Parse(agentFlags); err != nil {
		return nil, fmt.Errorf("flags of the agent: %w", err)
	}
	config, err := contivconf.LoadFile(*file)
	if err != nil {
		return nil, fmt.Errorf("configuration of the agent: %w", err)
	}
	if *node == "" {
		if *node, err = os.Hostname(); err != nil {
			return nil, err
		}
	}
	name, steals, err := config.StealsOn(*node)
	if err != nil || !steals {
		return nil, err
	}
	return &theft{name: name, dhcp: config.IPAMConfig.NodeInterconnectDHCP, socket: config.STNSocketFile}, nil
}

// stnTimeout bounds how long contiv-stn may take.
const stnTimeout = 10 * time.Second

// ask has contiv-stn do something, unless there is nothing to steal.
func (t *theft) ask(ctx context.Context, do func(context.Context, *client.Client) error) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stnTimeout)
	defer cancel()
	c, err := client.New(t.socket)
	if err != nil {
		return err
	}
	defer c.Close()
	return do(ctx, c)
}

// steal claims the card before VPP starts. VPP starts also without: the agent asks again.
func (t *theft) steal(ctx context.Context, log *slog.Logger) {
	err := t.ask(ctx, func(ctx context.Context, c *client.Client) error {
		r, err := c.Claim(ctx, t.name, t.dhcp)
		if err == nil {
			log.Info("Network card is claimed for VPP", "interface", r.GetInterfaceName(), "pci", r.GetPciAddress(), "addresses", r.GetIpAddresses())
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		log.Error("Network card is not stolen, VPP starts without it", "error", err)
	}
}

// release gives the card back for good.
func (t *theft) release(ctx context.Context, log *slog.Logger) {
	if err := t.ask(ctx, func(ctx context.Context, c *client.Client) error { return c.Release(ctx, t.name) }); err != nil {
		log.Warn("Network card is not released: contiv-stn gives it back by itself", "error", err)
	}
}
