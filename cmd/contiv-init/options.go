package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
	serviceconfig "github.com/contiv/contiv/internal/plugins/service/config"
	"github.com/contiv/contiv/internal/vswitch/vpp/startup"
	"github.com/spf13/pflag"
)

// standardOptions is the default file of VPP's options.
const standardOptions = "/etc/contiv/vpp.conf"

type options struct {
	vppBin, agentBin string
	// vppConfig is a foreign start-up configuration; vppOptions is the file from which ours is
	// generated.
	vppConfig, vppOptions string
	runtimeDir            string
	coreDumps             string
	agentGrace, vppGrace  time.Duration
	vppWatchdog           time.Duration
}

func (o *options) register(f *pflag.FlagSet) {
	f.StringVar(&o.vppBin, "vpp-bin", "/usr/bin/vpp", "program of VPP")
	f.StringVar(&o.agentBin, "agent-bin", "", "program of the agent (default: contiv-agent in the directory of contiv-init)")
	f.StringVar(&o.vppConfig, "vpp-config", "", "start-up configuration of VPP, used unchanged (default: /etc/vpp/contiv-vswitch.conf if it exists and --vpp-options is not set)")
	f.StringVar(&o.vppOptions, "vpp-options", "", "options of VPP, YAML, from which a start-up configuration is generated unless --vpp-config is used (default: "+standardOptions+" if it exists)")
	f.StringVar(&o.runtimeDir, "vpp-runtime-dir", "/run/vpp", "directory of VPP's sockets and of the generated configuration")
	f.StringVar(&o.coreDumps, "core-dumps", "", "directory for core dumps (default: no dumps)")
	f.DurationVar(&o.agentGrace, "agent-grace", 15*time.Second, "maximum time for the agent to stop before it is killed")
	f.DurationVar(&o.vppGrace, "vpp-grace", 10*time.Second, "maximum time for VPP to stop before it is killed")
	f.DurationVar(&o.vppWatchdog, "vpp-watchdog", 30*time.Second, "time without an answer from VPP's API after which VPP is restarted; 0: never")
}

// unit checks the options and generates VPP's configuration.
func (o *options) unit(agentFlags []string) (*unit, error) {
	if err := o.programs(); err != nil {
		return nil, err
	}
	if o.vppWatchdog != 0 && o.vppWatchdog < time.Second {
		return nil, fmt.Errorf("--vpp-watchdog %v: use 1s or more, or 0 for none", o.vppWatchdog)
	}
	if o.vppOptions == "" {
		o.vppConfig = existing(o.vppConfig, "/etc/vpp/contiv-vswitch.conf")
	}
	o.vppOptions = existing(o.vppOptions, standardOptions)
	u := &unit{options: *o}
	var err error
	if o.coreDumps != "" {
		if u.coreDumps, err = filepath.Abs(o.coreDumps); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(u.coreDumps, 0o700); err != nil {
			return nil, fmt.Errorf("--core-dumps: %w", err)
		}
	}
	if o.vppConfig != "" {
		text, err := os.ReadFile(o.vppConfig)
		if err != nil {
			return nil, fmt.Errorf("--vpp-config: %w", err)
		}
		if u.socket, err = startup.APISocketOf(string(text)); err != nil {
			return nil, fmt.Errorf("--vpp-config %s: %w", o.vppConfig, err)
		}
		u.sockets = []string{u.socket}
	} else if err := u.writeConfig(agentFlags); err != nil {
		return nil, err
	}
	u.agentFlags = append([]string{"--vswitch", "vpp", "--vpp-socket", u.socket}, agentFlags...)
	return u, nil
}

func (o *options) programs() error {
	if o.agentBin == "" {
		own, err := os.Executable()
		if err != nil {
			return fmt.Errorf("--agent-bin: %w", err)
		}
		o.agentBin = filepath.Join(filepath.Dir(own), "contiv-agent")
	}
	for _, program := range []struct {
		flag string
		path *string
	}{{"--vpp-bin", &o.vppBin}, {"--agent-bin", &o.agentBin}} {
		path, err := exec.LookPath(*program.path)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", program.flag, err)
		}
		*program.path = path
	}
	return nil
}

// writeConfig writes the start-up configuration to the runtime directory. Session timeouts come
// from a file of the agent, because VPP takes them only at its start.
func (u *unit) writeConfig(agentFlags []string) error {
	dir, err := filepath.Abs(u.runtimeDir)
	if err != nil {
		return err
	}
	machine := startup.ThisMachine()
	c := startup.New(dir, machine)
	c.PluginPath, c.CoreDumps = startup.PluginPath(u.vppBin), u.coreDumps != ""
	if u.vppOptions != "" {
		if err := config.LoadFile(u.vppOptions, &c); err != nil {
			return fmt.Errorf("--vpp-options: %w", err)
		}
	}
	settings, err := readAgentSettings(agentFlags)
	if err != nil {
		return err
	}
	services, err := serviceconfig.LoadFile(settings.serviceConfig)
	if err != nil {
		return fmt.Errorf("configuration of services: %w", err)
	}
	c.TCPSessionSeconds, c.OtherSessionSeconds = services.TCPNATSessionTimeout, services.OtherNATSessionTimeout
	if err := c.Check(machine); err != nil {
		return fmt.Errorf("options of VPP%s: %w", inFile(u.vppOptions), err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("--vpp-runtime-dir: %w", err)
	}
	u.vppConfig = filepath.Join(dir, "startup.conf")
	if err := os.WriteFile(u.vppConfig, []byte("# Written by contiv-init, which replaces it.\n"+c.String()), 0o600); err != nil {
		return err
	}
	u.socket, u.sockets = c.APISocket(), []string{c.APISocket(), c.CLISocket(), c.StatsSocket()}
	u.leftovers = c.SharedMemory()
	return nil
}

func inFile(file string) string {
	if file == "" {
		return ""
	}
	return " in " + file
}

// existing returns path, or the standard path if path is empty and that file exists.
func existing(path, standard string) string {
	if path != "" {
		return path
	}
	if _, err := os.Stat(standard); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return standard
}
