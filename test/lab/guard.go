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

// Guard is a process that removes a lab when the program that needs the lab
// dies without having released the guard, be it by SIGKILL.
//
//	program ──pipe──> guard: a byte: released, end. End of file: Down.
type Guard struct {
	cmd  *exec.Cmd
	pipe io.WriteCloser
}

// GuardCommand is the first argument with which a program that is started as a
// guard must call RunGuard.
const GuardCommand = "guard"

// NewGuard starts program, which is contiv-lab, as a guard of the lab.
func NewGuard(program string, opts Options) (*Guard, error) {
	opts = opts.withDefaults()
	if err := opts.check(); err != nil {
		return nil, err
	}
	cmd := exec.Command(program, GuardCommand, "--name", opts.Name, "--root", opts.Root)
	cmd.Dir = "/"
	// Away from the terminal, whose signals and end are not for the guard.
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

// Release ends the guard; the lab stays.
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

// RunGuard is what a guard does: it waits for the release or the end of the
// program that started it. down removes the lab, as Down does.
func RunGuard(stdin io.Reader, opts Options, down func(context.Context, Options) error) error {
	var released [1]byte
	if n, _ := stdin.Read(released[:]); n > 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	err := down(ctx, opts)
	if err != nil {
		// Nobody listens any more; the next command on the lab tells the rest.
		os.WriteFile(newLab(opts.withDefaults()).guardLog(), []byte(err.Error()+"\n"), 0o600)
	}
	return err
}

// guardLog is where a guard that fails says why.
func (l *Lab) guardLog() string { return l.dir + ".guard.log" }
