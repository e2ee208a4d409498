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

	"github.com/contiv/contiv/cni"
)

// ConflistName is the file that runtimes read. Of several files, they take the
// first in alphabetical order.
const ConflistName = "10-contiv-vpp.conflist"

// The agent is asked every pollInterval if it is ready.
const (
	pollInterval = time.Second
	pollTimeout  = 5 * time.Second
)

// Options of Install and Uninstall.
type Options struct {
	// BinDir and NetDir are the folders of the node where the runtime looks for
	// plugins and for their configuration.
	BinDir, NetDir string
	// Program is the executable that is copied to BinDir.
	Program string
	// Conflist is the file with the configuration to install; if it is empty, a
	// standard one is made of Server, LogFile and the plugins in Chain that are
	// installed.
	Conflist        string
	Server, LogFile string
	Chain           []string
	// KeepProgram makes Uninstall leave the program, for pods that are yet to be
	// removed.
	KeepProgram bool
	Log         *slog.Logger
}

func (o *Options) program() string      { return filepath.Join(o.BinDir, PluginName) }
func (o *Options) conflistPath() string { return filepath.Join(o.NetDir, ConflistName) }

// Install puts the program in place, waits until the agent is ready, and then puts
// the configuration in place. When it fails, or is interrupted, the configuration
// is the one that was there before, or none.
func Install(ctx context.Context, o Options) error {
	_, err := install(ctx, o)
	return err
}

func install(ctx context.Context, o Options) (done installed, err error) {
	if err := errors.Join(removeTemporaries(o.program()), removeTemporaries(o.conflistPath())); err != nil {
		return done, fmt.Errorf("remove what an interrupted installation left: %w", err)
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
	o.Log.Info("Program is in place", "path", o.program(), "changed", changed)
	// What is wrong with it shall be known before the agent is ready.
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
	o.Log.Info("Agent is ready, configuration is in place", "path", o.conflistPath(), "changed", changed)
	return done, nil
}

// awaitAgent returns when the agent can wire pods.
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

// notReady tells why the agent cannot wire pods, "" if it can.
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

// Uninstall removes the configuration and then the program. What is missing is
// no error. A Keep in the same folders is made to let go first.
func Uninstall(o Options) (err error) {
	release, err := o.askToLeave()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := remove(o.conflistPath()); err != nil {
		return err
	}
	o.Log.Info("Configuration is removed", "path", o.conflistPath())
	if o.KeepProgram {
		return removeTemporaries(o.program())
	}
	if err := remove(o.program()); err != nil {
		return err
	}
	o.Log.Info("Program is removed", "path", o.program())
	return nil
}
