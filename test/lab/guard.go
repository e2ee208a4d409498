package lab

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Guard is a process that removes a lab if the program that uses the lab dies without releasing the
// guard, even by SIGKILL.
//
//	program ──pipe──> guard: a byte: released, exit. End of file: Down.
type Guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// GuardCommand is the first argument of a program started as a guard. Such a program must call
// RunGuard.
const GuardCommand = "guard"

// NewGuard starts program, a contiv-lab binary, as a guard of the lab.
func NewGuard(program string, opts Options) (*Guard, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, GuardCommand, "--name", opts.Name, "--root", opts.Root)
	cmd.Dir = "/"
	// A new session, so that signals of the terminal do not reach the guard.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard of lab %s: %w", opts.Name, err)
	}
	return &Guard{cmd, pipe}, nil
}

// Release ends the guard and keeps the lab.
func (g *Guard) Release() error {
	_, err := g.pipe.Write([]byte{1})
	if err == nil {
		err = g.pipe.Close()
	}
	if wait := g.cmd.Wait(); err == nil {
		err = wait
	}
	if err != nil {
		return fmt.Errorf("releasing the guard of the lab: %w", err)
	}
	return nil
}

// RunGuard waits for the release or for the end of the program that started the guard. In the
// second case it calls down, which removes the lab as Down does.
func RunGuard(stdin io.Reader, opts Options, down func(context.Context, Options) error) error {
	var released [1]byte
	if n, _ := stdin.Read(released[:]); n > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := down(ctx, opts)
	if err != nil {
		// The starter is gone, so the next command on the lab reports the error.
		os.WriteFile(newLab(opts.withDefaults()).guardLog(), []byte(err.Error()+"\n"), 0o600)
	}
	return err
}

func (l *Lab) guardLog() string { return l.dir + ".guard.log" }
