package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/contiv/contiv/internal/lib/logline"
	"golang.org/x/sys/unix"
)

// unit is VPP and the agent.
type unit struct {
	options
	agentFlags []string
	// socket is VPP's API socket; sockets lists all of VPP's sockets.
	socket  string
	sockets []string
	// leftovers lists other files that a killed VPP leaves behind.
	leftovers []string
}

// run runs both until ctx ends. The agent ends first, so that it does not see VPP end.
func (u *unit) run(ctx context.Context) error {
	out := newLog(os.Stderr)
	log := logline.New(out.lines("init"), slog.LevelInfo)
	if err := u.alone(); err != nil {
		return failedError{err}
	}
	if u.coreDumps != "" {
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}); err != nil {
			return failedError{fmt.Errorf("enable core dumps: %w", err)}
		}
	}
	theft, err := theftBy(ctx, u.agentFlags, log)
	if err != nil { // the agent logs it too
		log.Error("Reading the settings of STN failed", "error", err)
	}
	children := &processes{}
	vpp := &child{
		name: "vpp", command: []string{u.vppBin, "-c", u.vppConfig}, dir: u.coreDumps, grace: u.vppGrace,
		out: out, log: log, all: children, restart: make(chan struct{}, 1), prepare: func() { u.tidy(); theft.steal(ctx, log) },
	}
	agent := &child{
		name: "agent", command: append([]string{u.agentBin}, u.agentFlags...), dir: u.coreDumps, grace: u.agentGrace,
		out: out, log: log, all: children, restart: make(chan struct{}, 1),
	}
	if u.coreDumps != "" {
		agent.environment = []string{"GOTRACEBACK=crash"}
	}
	log.Info("Started", "vpp", u.vppBin, "config", u.vppConfig, "agent", u.agentBin)
	stopSignals := restartOn(map[os.Signal]*child{syscall.SIGUSR1: agent, syscall.SIGUSR2: vpp}, log)
	defer stopSignals()
	stopReaper := children.reapOthers()
	defer stopReaper()

	stopVPP := vpp.start(context.WithoutCancel(ctx))
	stopAgent := agent.start(context.WithoutCancel(ctx))
	if u.vppWatchdog > 0 {
		go watchdog(ctx, u.socket, u.vppWatchdog, vpp.life.Load, func() {
			log.Error("VPP does not answer, restarting it", "for", u.vppWatchdog)
			vpp.askForRestart()
		})
	}
	<-ctx.Done()
	log.Info("Stopping the agent and VPP")
	err = stopAgent()
	err = errors.Join(err, stopVPP())
	u.tidy()
	theft.release(context.WithoutCancel(ctx), log)
	if err != nil {
		return failedError{err}
	}
	log.Info("Ended")
	return nil
}

// alone returns an error if another VPP uses the sockets.
func (u *unit) alone() error {
	for _, socket := range u.sockets {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			return fmt.Errorf("another process listens on %s: stop it, or use another --vpp-runtime-dir", socket)
		}
	}
	return nil
}

// tidy removes the files of a killed VPP.
func (u *unit) tidy() {
	for _, file := range append(u.sockets, u.leftovers...) {
		os.RemoveAll(file)
	}
}

// restartOn restarts children on signals until stop is called.
func restartOn(children map[os.Signal]*child, log *slog.Logger) (stop func()) {
	signals := make(chan os.Signal, 4)
	done := make(chan struct{})
	for s := range children {
		signal.Notify(signals, s)
	}
	go func() {
		defer close(done)
		for s := range signals {
			log.Info("Restarting", "process", children[s].name, "signal", s)
			children[s].askForRestart()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}
