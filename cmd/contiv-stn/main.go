// Command contiv-stn lends the only network card of a host to the vswitch, and returns it when the
// vswitch does not forward. It runs outside of Kubernetes. See package stn.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/logline/loglevel"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/internal/stn"
	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/contiv/contiv/internal/stn/pci"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/vishvananda/netns"
	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	syscall.Umask(0o077)
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "contiv-stn:", err)
		if errors.Is(err, errMisused) {
			os.Exit(3) // like contivctl
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	c := &cobra.Command{
		Use:   "contiv-stn",
		Short: "Lend the host's network card to VPP, and return it",
		Long: `Lend a network card of the host to VPP while VPP forwards traffic. contiv-init and the agent of the
node claim the card. The host gets it back, with its addresses and routes, if VPP or the agent stops or
does not respond, if the interconnect is down, and before contiv-stn exits on SIGTERM or SIGINT.

Every flag can also be set in the environment, as CONTIV_STN_ followed by its name in capitals.`,
		Version:       version.Version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(c *cobra.Command, _ []string) error { return o.run(c.Context()) },
	}
	o.register(c.PersistentFlags())
	c.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		return errors.Join(checkUsed(c), fromEnvironment(c.Flags()))
	}
	c.AddCommand(statusCommand(&o), releaseCommand(&o))
	return c
}

var errMisused = errors.New("drop it")

// checkUsed refuses daemon flags that a subcommand does not use.
func checkUsed(c *cobra.Command) (err error) {
	used, below := map[string][]string{"status": {"state-dir"}, "release": {"socket", "grpc"}}[c.Name()]
	if !below {
		return nil
	}
	c.InheritedFlags().VisitAll(func(f *pflag.Flag) {
		if f.Changed && !slices.Contains(used, f.Name) {
			err = fmt.Errorf("%s does not use --%s: %w", c.CommandPath(), f.Name, errMisused)
		}
	})
	return err
}

// run connects the parts.
//
//	stn.sock ──> Keeper <── kernel's events
//	               └──> journal, kernel, PCI bus
func (o *options) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	log := loglevel.New(os.Stderr, o.logLevel)
	slog.SetDefault(log)
	boot, err := stn.BootID()
	if err != nil {
		return err
	}
	ns, err := netns.GetFromPath(o.netns)
	if err != nil {
		return fmt.Errorf("--netns: %w", err)
	}
	defer ns.Close()
	// The socket comes first, because its owner also owns the journal.
	l, err := listener.Unix(o.socket)
	if err != nil {
		return err
	}
	defer l.Close()
	keeper, err := stn.New(stn.Options{
		Journal:      journal.File(filepath.Join(o.stateDir, "journal.json")),
		NetNS:        ns,
		Interconnect: o.interconnect,
		Bus:          pci.This(),
		PCIDriver:    o.pciDriver,
		KeepDriver:   o.keepDriver,
		ResolvConf:   o.resolvConf,
		Limits:       o.limits,
		Boot:         boot,
		Log:          log,
	})
	if err != nil {
		return err
	}
	serve, cancel := context.WithCancel(ctx)
	defer cancel()
	group, serve := errgroup.WithContext(serve)
	group.Go(func() error { return keeper.Watch(serve) })
	group.Go(func() error { return keeper.Serve(serve, l) })
	log.Info("Started", "version", version.Version, "socket", o.socket, "state", o.stateDir)
	err = group.Wait()
	began := time.Now()
	if closeErr := keeper.Close(); closeErr != nil {
		return fmt.Errorf("return the network cards: %w", closeErr)
	}
	log.Info("Stopped; all network cards returned to the host", "took", time.Since(began).Round(time.Millisecond))
	return err
}
