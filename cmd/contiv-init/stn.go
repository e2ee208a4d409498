package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/contiv/contiv/api/contiv/nodeconfig"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/stn/client"
	"github.com/spf13/pflag"
)

// theft is the network card that contiv-stn takes from the host for VPP.
type theft struct {
	name   string // "": the first network card
	dhcp   bool
	socket string
}

// agentSettings holds the agent's flags and reads its other settings.
type agentSettings struct {
	contivConfig, node, bolt  string
	serviceConfig             string
	etcdConfig                string
	etcdEndpoints             []string
	etcdCA, etcdCert, etcdKey string
}

func readAgentSettings(agentFlags []string) (s agentSettings, err error) {
	f := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	f.ParseErrorsAllowlist.UnknownFlags = true
	text := func(p *string, name, alias, standard string) {
		own := "CONTIV_AGENT_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		f.StringVar(p, name, cmp.Or(os.Getenv(own), os.Getenv(alias), standard), "")
	}
	var endpoints string
	text(&s.contivConfig, "contiv-config", "CONTIV_CONFIG", existing("", "/etc/contiv/contiv.conf"))
	text(&s.serviceConfig, "service-config", "SERVICE_CONFIG", existing("", "/etc/contiv/service.conf"))
	text(&s.node, "node-name", "MICROSERVICE_LABEL", "")
	text(&s.bolt, "bolt", "", "/var/bolt/bolt.db")
	text(&s.etcdConfig, "etcd-config", "ETCD_CONFIG", "")
	text(&endpoints, "etcd-endpoints", "ETCD_ENDPOINTS", "")
	text(&s.etcdCA, "etcd-ca-file", "", "")
	text(&s.etcdCert, "etcd-cert-file", "", "")
	text(&s.etcdKey, "etcd-key-file", "", "")
	if err := f.Parse(agentFlags); err != nil {
		return s, fmt.Errorf("flags of the agent: %w", err)
	}
	if endpoints != "" {
		s.etcdEndpoints = strings.Split(endpoints, ",")
	}
	if s.node == "" {
		s.node, err = os.Hostname()
	}
	return s, err
}

// theftBy reads from the agent's configuration and NodeConfig whether to steal a card; nil
// if not.
func theftBy(ctx context.Context, agentFlags []string, log *slog.Logger) (*theft, error) {
	s, err := readAgentSettings(agentFlags)
	if err != nil {
		return nil, err
	}
	config, err := contivconf.LoadFile(s.contivConfig)
	if err != nil {
		return nil, fmt.Errorf("configuration of the agent: %w", err)
	}
	var crd *nodeconfig.NodeConfig
	if !config.CRDNodeConfigurationDisabled {
		crd = s.nodeConfig(ctx, log)
	}
	name, steals, err := config.StealsOn(s.node, crd)
	if err != nil || !steals {
		return nil, err
	}
	return &theft{name: name, dhcp: config.IPAMConfig.NodeInterconnectDHCP, socket: config.STNSocketFile}, nil
}

// stnTimeout bounds a request to contiv-stn.
const stnTimeout = 10 * time.Second

// ask sends a request to contiv-stn if a card was requested.
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

// steal claims the card before VPP starts. VPP starts even if that fails; the agent asks again.
func (t *theft) steal(ctx context.Context, log *slog.Logger) {
	err := t.ask(ctx, func(ctx context.Context, c *client.Client) error {
		r, err := c.Claim(ctx, t.name, t.dhcp)
		if err == nil {
			log.Info("Network card claimed for VPP", "interface", r.GetInterfaceName(), "pci", r.GetPciAddress(), "addresses", r.GetIpAddresses())
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		log.Error("Claiming the network card failed; starting VPP without it", "error", err)
	}
}

// release returns the card for good.
func (t *theft) release(ctx context.Context, log *slog.Logger) {
	if err := t.ask(ctx, func(ctx context.Context, c *client.Client) error { return c.Release(ctx, t.name) }); err != nil {
		log.Warn("Releasing the network card failed; contiv-stn returns it", "error", err)
	}
}
