package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/stn"
	"github.com/spf13/pflag"
)

type options struct {
	socket, stateDir      string
	netns, interconnect   string
	pciDriver, resolvConf string
	keepDriver            []string
	limits                stn.Limits
	logLevel              slog.Level
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.socket, "socket", "/var/run/contiv/stn.sock", "socket to serve contiv-init and the agent on")
	f.StringVar(&o.socket, "grpc", "/var/run/contiv/stn.sock", "same as --socket")
	_ = f.MarkHidden("grpc") // as in Contiv/VPP
	f.StringVar(&o.stateDir, "state-dir", "/var/lib/contiv/stn", "directory of the journal, which must survive a restart of the machine")
	f.StringVar(&o.netns, "netns", "/proc/self/ns/net", "network namespace of the host")
	f.StringVar(&o.interconnect, "interconnect", "vpp1", "interface of the host that connects it to VPP")
	f.StringVar(&o.pciDriver, "pci-driver", "vfio-pci", "driver to bind PCI devices to for VPP")
	f.StringSliceVar(&o.keepDriver, "keep-driver", nil, "PCI network card that keeps its driver, because VPP uses it with AF_PACKET or AF_XDP; *: all; comma-separated or repeatable")
	f.StringVar(&o.resolvConf, "resolv-conf", "/etc/resolv.conf", "resolv.conf of the host")
	d := stn.DefaultLimits
	f.DurationVar(&o.limits.Absent, "agent-absent", d.Absent, "time without the agent after which the host gets the network card back")
	f.DurationVar(&o.limits.Silent, "agent-silent", d.Silent, "time without a report of the agent, which sends one per second, after which the host gets the network card back")
	f.DurationVar(&o.limits.Down, "interconnect-down", d.Down, "time of a down interconnect after which the host gets the network card back")
	f.DurationVar(&o.limits.Start, "start", d.Start, "maximum time for VPP to start with a PCI device")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "log level: DEBUG, INFO, WARN or ERROR")
}

// fromEnvironment sets flags that were not given from the environment.
func fromEnvironment(f *pflag.FlagSet) (err error) {
	f.VisitAll(func(flag *pflag.Flag) {
		name := "CONTIV_STN_" + strings.ToUpper(strings.ReplaceAll(flag.Name, "-", "_"))
		if value, ok := os.LookupEnv(name); ok && !flag.Changed {
			if setErr := f.Set(flag.Name, value); setErr != nil {
				err = errors.Join(err, fmt.Errorf("environment variable %s=%q: %w", name, value, setErr))
			}
		}
	})
	return err
}

func (o *options) check() error {
	for _, limit := range []struct {
		flag  string
		value time.Duration
		least time.Duration
	}{
		{"agent-absent", o.limits.Absent, 0}, {"agent-silent", o.limits.Silent, 2 * time.Second},
		{"interconnect-down", o.limits.Down, 0}, {"start", o.limits.Start, time.Second},
	} {
		if limit.value < limit.least {
			return fmt.Errorf("--%s %v: use %v or more", limit.flag, limit.value, limit.least)
		}
	}
	if o.interconnect == "" {
		return errors.New("--interconnect is empty: set the interface of the host that connects it to VPP")
	}
	return nil
}
