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
	// firstDelay and lastDelay bound how long after its end a child is started again;
	// the time doubles with each end that follows a life shorter than stableLife.
	firstDelay, lastDelay = 100 * time.Millisecond, 30 * time.Second
	stableLife            = 10 * time.Second
)

// child is a program that is to run for ever.
type child struct {
	name        string // for people
	command     []string
	environment []string // beside ours
	dir         string   // "": ours
	grace       time.Duration
	out         *lineLog
	log         *slog.Logger
	all         *processes
	restart     chan struct{} // it is to end, and to be started again
	prepare     func()        // before each start; may be nil
	life        atomic.Int64  // changes when it starts, and when it ends
}

// start runs the child, again and again. stop ends it, and returns an error if that
// took force.
func (c *child) start(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that started it, should this process
		// be killed: the thread must not end before.
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
		c.log.Error("Process ended, starting it again", "process", c.name, "error", err, "lived", time.Since(begun).Round(time.Millisecond), "in", delay)
		select {
		case <-ctx.Done():
			return nil
		case <-c.restart: // at once, then
		case <-time.After(delay):
		}
		delay = min(2*delay, lastDelay)
	}
}

// askForRestart makes the child end and start again, unless it is about to.
func (c *child) askForRestart() {
	select {
	case c.restart <- struct{}{}:
	default:
	}
}

// ending is why a process ended.
type ending int

const (
	byItself ending = iota
	asked
)

// once runs the child until it ends or is to end.
func (c *child) once(ctx context.Context) (ending, error) {
	if c.prepare != nil {
		c.prepare()
	}
	lines := c.out.lines(c.name)
	defer lines.Close()
	cmd := exec.Command(c.command[0], c.command[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = c.dir, lines, lines
	cmd.Env = append(os.Environ(), c.environment...)
	// In a group of its own, so that a terminal's ^C does not end VPP before the agent.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	cmd.WaitDelay = time.Second // for output that its own children keep open
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

// end ends the process in order, or by force.
func (c *child) end(cmd *exec.Cmd, exited <-chan error) error {
	cmd.Process.Signal(syscall.SIGTERM)
	timer := time.NewTimer(c.grace)
	defer timer.Stop()
	select {
	case err := <-exited:
		c.log.Info("Process ended", "process", c.name, "status", cmd.ProcessState.String(), "error", err)
		return nil
	case <-timer.C:
	}
	cmd.Process.Kill()
	<-exited
	return fmt.Errorf("%s did not end within %v and was killed", c.name, c.grace)
}
