package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/contiv/contiv/internal/agent/hostinfo"
	"github.com/contiv/contiv/internal/agent/southbound"
	"github.com/contiv/contiv/internal/agent/valuecheck"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	serviceconfig "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/spf13/cobra"
)

func checkConfigCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "check-config",
		Short: "Check flags, environment variables and configuration files",
		Long: `Check the configuration of an agent with the same flags and environment: contiv.conf, controller.conf,
service.conf, the etcd client configuration with its credentials, and the values in --config-dir. The
command makes no connections and changes nothing, so it cannot check whether the vswitch supports a value
or whether its dependencies exist.

With the kernel vswitch, contiv.conf is also compared with the interfaces of this machine: that the
interfaces of this node in nodeConfig exist, that the main interface is in the cluster's network, and that
mtuSize fits it. A mismatch is an error if nodeConfig configures interfaces for this machine's host name,
and otherwise a warning, because the file may be for another machine.

The exit code is 1 if the configuration has errors.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := o.complete(c.Flags()); err != nil {
				return err
			}
			remarks, err := o.check(c.Context(), hostinfo.Links{})
			for _, remark := range remarks {
				fmt.Fprintln(c.OutOrStdout(), "warning:", remark)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "no errors found")
			return nil
		},
	}
}

// check returns all mistakes in the files that an agent with these options reads, and warnings.
// links are this machine's.
func (o options) check(ctx context.Context, links contivconf.HostLinks) (remarks []string, err error) {
	var errs []error
	if o.contivConfig != "" {
		errs = append(errs, contivconf.CheckFile(o.contivConfig))
	}
	if c, err := contivconf.LoadFile(o.contivConfig); err == nil && !o.standalone {
		host, _ := os.Hostname()
		found, err := c.CheckMachine(contivconf.Machine{NodeName: o.nodeName, Here: o.nodeName == host, OwnStack: o.vswitch == southbound.VPPVSwitch, Links: links})
		read := cmp.Or(o.contivConfig, "contiv.conf (missing, defaults used)")
		for _, remark := range slices.Concat(c.Remarks(), found) {
			remarks = append(remarks, read+": "+remark)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", read, err))
		}
	}
	events := controller.DefaultConfig()
	if o.controllerConfig != "" {
		errs = append(errs, controller.CheckFile(o.controllerConfig, func(c *controller.Config) error { return o.controller.Apply(c) }))
	} else {
		errs = append(errs, o.controller.Apply(&events), events.Validate())
	}
	if o.serviceConfig != "" {
		errs = append(errs, serviceconfig.CheckFile(o.serviceConfig))
		if c, err := serviceconfig.LoadFile(o.serviceConfig); err == nil {
			for _, remark := range c.Remarks(o.http...) {
				remarks = append(remarks, o.serviceConfig+": "+remark)
			}
		}
	}
	switch {
	case o.etcdConfig != "":
		errs = append(errs, etcd.CheckFile(o.etcdConfig, o.etcdFlags(), etcd.LocalEndpoint))
	case !o.standalone || len(o.etcdEndpoints) > 0:
		c, err := loadEtcdConfig(o)
		errs = append(errs, cmp.Or(err, c.Check()))
	}
	if o.configDir != "" {
		if _, err := os.Stat(o.configDir); err != nil {
			errs = append(errs, fmt.Errorf("--config-dir: %w", err)) // an agent would wait for it
		}
		paths, err := filepath.Glob(filepath.Join(o.configDir, "*.yaml"))
		errs = append(errs, err)
		v, err := valuecheck.New()
		if err != nil {
			errs = append(errs, fmt.Errorf("check the values in %s: %w: run the command as root", o.configDir, err))
		}
		defer v.Close()
		for _, path := range paths {
			empty, err := v.File(ctx, path)
			if errs = append(errs, err); empty {
				remarks = append(remarks, path+" is empty: add a value or remove the file")
			}
		}
		errs = append(errs, valuecheck.Ignored(o.configDir))
	}
	return remarks, errors.Join(errs...)
}
