package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/internal/cni"
)

// ConflistName is the configuration file. Of several files, runtimes use the alphabetically first.
const ConflistName = "10-contiv-vpp.conflist"

// Period and timeout of the checks whether the agent is ready.
const (
	pollInterval = time.Second
	pollTimeout  = 5 * time.Second
)

// Options of Install and Uninstall.
type Options struct {
	// BinDir and NetDir are the node's directories of plugins and of their configuration.
	BinDir, NetDir string
	// Program is the executable to copy to BinDir.
	Program string
	// Conflist is the configuration file to install. By default, the configuration is generated
	// from Server, LogFile and the installed plugins of Chain.
	Conflist        string
	Server, LogFile string
	Chain           []string
	// KeepProgram makes Uninstall keep the program, which the deletion of remaining pods needs.
	KeepProgram bool
	Log         *slog.Logger
}

func (o *Options) program() string      { return filepath.Join(o.BinDir, PluginName) }
func (o *Options) conflistPath() string { return filepath.Join(o.NetDir, ConflistName) }

// Install installs the program, waits until the agent is ready, and then installs the
// configuration. After an error or interruption, the previous configuration is unchanged.
func Install(ctx context.Context, o Options) error {
	_, err := install(ctx, o)
	return err
}

func install(ctx context.Context, o Options) (done installed, err error) {
	if err := errors.Join(removeTemporaries(o.program()), removeTemporaries(o.conflistPath())); err != nil {
		return done, fmt.Errorf("remove files of an interrupted installation: %w", err)
	}
	program, err := os.Open(o.Program)
	if err != nil {
		return done, err
	}
	defer program.Close()
	changed, err := replace(o.program(), 0o755, program)
	if err == nil {
		done.program, err = os.Stat(o.program())
	}
	if err != nil {
		return done, err
	}
	o.Log.Info("Program installed", "path", o.program(), "changed", changed)
	if done.conflist, err = o.conflist(ctx); err != nil {
		return done, err
	}
	if err := o.awaitAgent(ctx); err != nil {
		return done, err
	}
	changed, err = replace(o.conflistPath(), 0o600, bytes.NewReader(done.conflist))
	if err != nil {
		return done, err
	}
	o.Log.Info("Agent ready, configuration installed", "path", o.conflistPath(), "changed", changed)
	return done, nil
}

func (o *Options) awaitAgent(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	said := ""
	for {
		reason := o.notReady(ctx)
		if reason == "" {
			return nil
		}
		if reason != said {
			said = reason
			o.Log.Info("Waiting for the agent", "reason", reason)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the agent was not ready: %s: %w", reason, ctx.Err())
		case <-ticker.C:
		}
	}
}

// notReady returns the reason why the agent cannot wire pods, or "".
func (o *Options) notReady(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	status, err := cni.AgentStatus(ctx, o.Server)
	switch {
	case err != nil:
		return err.Error()
	case !status.Ready:
		return status.Reason
	}
	return ""
}

// Uninstall removes the configuration and then the program. Missing files are no error. It first
// stops a Keep of the same directories.
func Uninstall(o Options) (err error) {
	release, err := o.askToLeave()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := remove(o.conflistPath()); err != nil {
		return err
	}
	o.Log.Info("Configuration removed", "path", o.conflistPath())
	if o.KeepProgram {
		return removeTemporaries(o.program())
	}
	if err := remove(o.program()); err != nil {
		return err
	}
	o.Log.Info("Program removed", "path", o.program())
	return nil
}
