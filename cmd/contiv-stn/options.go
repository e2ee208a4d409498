package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/contiv/contiv/stn"
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
	f.StringVar(&o.socket, "socket", "/var/run/contiv/stn.sock", "socket of contiv-init and the agent")
	f.StringVar(&o.socket, "grpc", "/var/run/contiv/stn.sock", "the same as --socket")
	_ = f.MarkHidden("grpc") // as in Contiv/VPP
	f.StringVar(&o.stateDir, "state-dir", "/var/lib/contiv/stn", "directory of the journal: must survive a restart of the machine")
	f.StringVar(&o.netns, "netns", "/proc/self/ns/net", "network namespace of the host")
	f.StringVar(&o.interconnect, "interconnect", "vpp1", "the host's device of its connection to VPP")
	f.StringVar(&o.pciDriver, "pci-driver", "vfio-pci", "driver that PCI devices get for VPP")
	f.StringSliceVar(&o.keepDriver, "keep-driver", nil, "network card on a PCI bus that keeps its driver, because VPP reads it by AF_PACKET or AF_XDP; several: repeat or separate by commas; *: all")
	f.StringVar(&o.resolvConf, "resolv-conf", "/etc/resolv.conf", "resolv.conf of the host")
	d := stn.DefaultLimits
	f.DurationVar(&o.limits.Absent, "agent-absent", d.Absent, "how long the agent may be gone before the host gets the network card back")
	f.DurationVar(&o.limits.Silent, "agent-silent", d.Silent, "how long the agent's reports, one per second, may be missing")
	f.DurationVar(&o.limits.Down, "interconnect-down", d.Down, "how long the interconnect may be down")
	f.DurationVar(&o.limits.Start, "start", d.Start, "how long VPP may take to start with a PCI device")
	f.TextVar(&o.logLevel, "log-level", slog.LevelInfo, "DEBUG, INFO, WARN or ERROR")
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
		return errors.New("--interconnect is empty: name the host's device of its connection to VPP")
	}
	return nil
}
