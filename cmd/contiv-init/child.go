package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// firstDelay and lastDelay bound the delay before a child is restarted. The delay doubles with
	// each end after less than stableLife.
	firstDelay, lastDelay = 100 * time.Millisecond, 30 * time.Second
	stableLife            = 10 * time.Second
)

// child is a program that is restarted whenever it ends.
type child struct {
	name        string // for messages
	command     []string
	environment []string // added to ours
	dir         string   // "": ours
	grace       time.Duration
	out         *lineLog
	log         *slog.Logger
	all         *processes
	restart     chan struct{} // asks for a restart
	prepare     func()        // before each start; may be nil
	life        atomic.Int64  // changes at each start and end
}

// start runs and restarts the child. stop ends it and returns an error if it was killed.
func (c *child) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		// The kernel kills the child when the thread that started it ends, so the thread must live
		// as long as this process.
		runtime.LockOSThread()
		ended <- c.run(ctx)
	}()
	return func() error {
		cancel()
		return <-ended
	}
}

func (c *child) run(ctx context.Context) error {
	delay := firstDelay
	for {
		begun := time.Now()
		why, err := c.once(ctx)
		if ctx.Err() != nil {
			return err
		}
		if why == asked {
			if err != nil {
				c.log.Warn("Process restarted", "process", c.name, "error", err)
			}
			delay = firstDelay
			continue
		}
		if time.Since(begun) >= stableLife {
			delay = firstDelay
		}
		c.log.Error("Process exited, restarting it", "process", c.name, "error", err, "lived", time.Since(begun).Round(time.Millisecond), "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-c.restart: // restart without delay
		case <-time.After(delay):
		}
		delay = min(2*delay, lastDelay)
	}
}

// askForRestart ends the child and starts it again, unless that is already pending.
func (c *child) askForRestart() {
	select {
	case c.restart <- struct{}{}:
	default:
	}
}

// ending is the reason for a process's end.
type ending int

const (
	byItself ending = iota
	asked
)

// once runs the child until it ends or is asked to.
func (c *child) once(ctx context.Context) (ending, error) {
	if c.prepare != nil {
		c.prepare()
	}
	lines := c.out.lines(c.name)
	defer lines.Close()
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, lines, lines
	cmd.Env = append(os.Environ(), c.environment...)
	// A separate process group, so that ^C in a terminal does not end VPP before the agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.WaitDelay = time.Second // for output that grandchildren keep open
	if err := c.all.start(cmd); err != nil {
		return byItself, err
	}
	c.life.Add(1)
	c.log.Info("Process started", "process", c.name, "pid", cmd.Process.Pid)
	exited := make(chan error, 1)
	go func() {
		err := cmd.Wait()
		c.life.Add(1)
		c.all.forget(cmd)
		exited <- err
	}()
	select {
	case err := <-exited:
		if err == nil {
			err = errors.New("exit status 0")
		}
		return byItself, err
	case <-ctx.Done():
	case <-c.restart:
	}
	return asked, c.end(cmd, exited)
}

// end terminates the process, by force if it does not exit.
func (c *child) end(cmd *exec.Cmd, exited <-chan error) error {
	cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	select {
	case err := <-exited:
		c.log.Info("Process exited", "process", c.name, "status", cmd.ProcessState.String(), "error", err)
		return nil
	case <-timer.C:
	}
	cmd.Process.Kill()
	<-exited
	return fmt.Errorf("%s did not stop within %v and was killed", c.name, c.grace)
}
