package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process identifies a process of a lab. The start time distinguishes it from a later process with
// the same number.
type Process struct {
	PID int `json:"pid"`
	// StartTime is in clock ticks since boot, as in /proc/<pid>/stat.
	StartTime uint64    `json:"startTime"`
	Started   time.Time `json:"started"`
	Log       string    `json:"log"`
	Command   []string  `json:"command"`
	Netns     string    `json:"netns"`
}

// Alive reports whether the process still runs.
func (p Process) Alive() bool {
	fd, alive := p.open()
	if alive {
		unix.Close(fd)
	}
	return alive
}

// open returns a pidfd if the process still runs.
func (p Process) open() (pidfd int, alive bool) {
	if p.PID <= 0 {
		return 0, false
	}
	pidfd, err := unix.PidfdOpen(p.PID, 0)
	if err != nil {
		return 0, false
	}
	state, start, err := procStat(p.PID)
	if err != nil || start != p.StartTime || state == 'Z' || state == 'X' {
		unix.Close(pidfd)
		return 0, false
	}
	return pidfd, true
}

func (p Process) signal(sig unix.Signal) error {
	fd, alive := p.open()
	if !alive {
		return nil
	}
	defer unix.Close(fd)
	err := unix.PidfdSendSignal(fd, sig, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("sending %v to process %d: %w", sig, p.PID, err)
	}
	return nil
}

func (p Process) wait(ctx context.Context) error {
	fd, alive := p.open()
	if !alive {
		return nil
	}
	defer unix.Close(fd)
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, 50) // milliseconds; bounds the delay after ctx ends
		if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// stop sends SIGTERM, and SIGKILL after the grace period.
func (p Process) stop(grace time.Duration) error {
	if err := p.signal(unix.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if p.wait(ctx) == nil {
		return nil
	}
	return p.kill()
}

func (p Process) kill() error {
	if err := p.signal(unix.SIGKILL); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := p.wait(ctx); err != nil {
		return fmt.Errorf("process %d (%s) does not end: %w", p.PID, p.name(), err)
	}
	return nil
}

func (p Process) name() string {
	if len(p.Command) == 0 {
		return "unknown"
	}
	return filepath.Base(p.Command[0])
}

func (p Process) logTail() string {
	const size, lines = 16 << 10, 12
	f, err := os.Open(p.Log)
	if err != nil {
		return "  (" + err.Error() + ")"
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > size {
		f.Seek(-size, 2)
	}
	data := make([]byte, size)
	n, _ := f.Read(data)
	tail := strings.Split(strings.TrimSpace(string(bytes.ToValidUTF8(data[:n], nil))), "\n")
	if len(tail) > lines {
		tail = tail[len(tail)-lines:]
	}
	return fmt.Sprintf("the end of %s:\n    %s", p.Log, strings.Join(tail, "\n    "))
}

const startMark = "contiv-lab starts"

// startProcess runs a program detached from the current one, in its own session and without a
// terminal. If netns is empty, the program runs in the current namespace.
func startProcess(lab, netns, log string, command []string) (Process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return Process{}, fmt.Errorf("opening the log of %s: %w", command[0], err)
	}
	defer out.Close()
	fmt.Fprintf(out, "--- %s %s: %s\n", time.Now().Format(time.RFC3339Nano), startMark, strings.Join(command, " "))
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = "/"
	cmd.Env = environment(lab)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// The process outlives this one and must not inherit files such as a lock. Go sets O_CLOEXEC
	// only on files that it opened.
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", command[0], err)
	}
	start := cmd.Start
	if netns != "" {
		start = func() error { return InNetns(NetnsPath(netns), cmd.Start) }
	}
	if err := start(); err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", command[0], err)
	}
	p := Process{PID: cmd.Process.Pid, Started: time.Now(), Log: log, Command: command, Netns: netns}
	_, p.StartTime, err = procStat(p.PID)
	// Reap the process if it ends first.
	go cmd.Wait()
	if err != nil {
		return Process{}, fmt.Errorf("starting %s: %w", command[0], err)
	}
	return p, nil
}

func processOf(pid int) (Process, bool) {
	_, start, err := procStat(pid)
	if err != nil {
		return Process{}, false
	}
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return Process{PID: pid, StartTime: start, Command: []string{strings.TrimSpace(string(name))}}, true
}

func procStat(pid int) (state byte, startTime uint64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	// The second field is the command name in parentheses, which may contain any character.
	_, rest, ok := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
	fields := strings.Fields(string(rest))
	if !ok || len(fields) < 20 {
		return 0, 0, fmt.Errorf("/proc/%d/stat has an unknown form", pid)
	}
	startTime, err = strconv.ParseUint(fields[19], 10, 64)
	return fields[0][0], startTime, err
}
