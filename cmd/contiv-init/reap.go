package main

import (
	"bytes"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// processes holds our running children.
type processes struct {
	mu  sync.Mutex
	our map[int]bool
}

func (p *processes) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := cmd.Start()
	if err == nil {
		if p.our == nil {
			p.our = map[int]bool{}
		}
		p.our[cmd.Process.Pid] = true
	}
	return err
}

func (p *processes) forget(cmd *exec.Cmd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.our, cmd.Process.Pid)
}

// reapOthers reaps orphans until stop is called: the first process of a container inherits
// processes whose parents ended.
func (p *processes) reapOthers() (stop func()) {
	if os.Getpid() != 1 {
		return func() {}
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGCHLD)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range signals {
			p.reap()
		}
	}()
	return func() {
		signal.Stop(signals)
		close(signals)
		<-done
	}
}

func (p *processes) reap() {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range lists {
		data, _ := os.ReadFile(list)
		for _, field := range bytes.Fields(data) {
			if pid, err := strconv.Atoi(string(field)); err == nil && !p.our[pid] {
				syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
}
