package main

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/test/await"
)

func TestWatchdogTellsOfAVPPThatHangs(t *testing.T) {
	vpp := vpptest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	hung, ended := make(chan struct{}), make(chan struct{})
	var life atomic.Int64
	go func() {
		defer close(ended)
		watchdog(ctx, vpp.Socket(), 100*time.Millisecond, life.Load, func() {
			select {
			case hung <- struct{}{}:
			case <-ctx.Done():
			}
		})
	}()
	defer func() {
		cancel()
		<-ended
	}()
	life.Add(1)
	vpp.Stop() // an ended process does not hang
	vpp.Start()
	for range 2 {
		vpp.Silence(true)
		<-hung
		vpp.Silence(false)
	}
}

// On SIGTERM, VPP 25.10 has removed its socket and kept running.
func TestWatchdogTellsOfAVPPThatDoesNotEnd(t *testing.T) {
	vpp := vpptest.New(t)
	ctx, cancel := context.WithCancel(t.Context())
	hung, ended := make(chan struct{}, 1), make(chan struct{})
	answered := make(chan struct{}, 100)
	go func() {
		defer close(ended)
		watchdog(ctx, vpp.Socket(), 100*time.Millisecond, func() int64 {
			select {
			case answered <- struct{}{}: // or an earlier one
			default:
			}
			return 1
		}, func() { hung <- struct{}{} })
	}()
	defer func() {
		cancel()
		<-ended
	}()
	for range 3 { // the third request follows an answer to the first
		<-answered
	}
	vpp.Stop()
	<-hung
}

func TestHungVPPIsStartedAgain(t *testing.T) {
	vpptest.Need(t)
	dir := t.TempDir()
	p := start(t, dir, "--vpp-bin", os.Getenv(vpptest.BinaryVariable), "--agent-bin", "/bin/cat", "--vpp-watchdog", "1s", "--vpp-grace", "1s")
	pid, err := strconv.Atoi(p.await(`Process started" process=vpp pid=(\d+)`, 1))
	if err != nil {
		t.Fatal(err)
	}
	await.That(t, "VPP has a socket", func() error { _, err := os.Stat(dir + "/run/api.sock"); return err })
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	p.await("VPP does not answer", 1)
	p.await(`Process started" process=vpp pid=(\d+)`, 2)
	if code := p.end(syscall.SIGTERM); code > 1 {
		t.Errorf("exit code %d", code)
	}
}
