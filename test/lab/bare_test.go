package lab_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
	"golang.org/x/sys/unix"
)

func TestBareLabHasNetworksAndGuestsOnly(t *testing.T) {
	opts := options(t)
	opts.Bare = true
	l := up(t, opts)
	if processes := processesOf(t, opts); len(processes) > 0 {
		t.Errorf("processes: %q", processes)
	}
	for role, netns := range map[string]string{"inside": l.Name() + "-node1", "here": ""} {
		if err := l.StartGuest(t.Context(), lab.Guest{Role: role, Netns: netns, Command: []string{"/bin/sleep", "1000"}}); err != nil {
			t.Fatal(err)
		}
	}
	st, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	if !st.Bare || len(processesOf(t, opts)) != 2 {
		t.Errorf("bare: %v; processes: %q", st.Bare, processesOf(t, opts))
	}
	for _, h := range l.Health(t.Context(), st) {
		if !h.Alive || h.NotReady != nil {
			t.Errorf("%s: %+v", h.Role, h)
		}
	}
	if len(lab.ProcessesIn(l.Name()+"-node1", "sleep")) != 1 {
		t.Error("the guest is not in its namespace")
	}
	if err := lab.Down(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	requireNothingLeft(t, opts)
}

// If a process inherited the lock file of contiv-lab up, it would hold the lock as long as it runs.
func TestProcessesInheritNoFiles(t *testing.T) {
	opts := options(t)
	opts.Bare, opts.Nodes = true, 1
	l := up(t, opts)
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], 0); err != nil { // without O_CLOEXEC, which Go would set
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	err := l.StartGuest(t.Context(), lab.Guest{Role: "guest", Command: []string{"/bin/sleep", "1000"}})
	unix.Close(pipe[1])
	if err != nil {
		t.Fatal(err)
	}
	fds := []unix.PollFd{{Fd: int32(pipe[0]), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, 0); err != nil || fds[0].Revents&unix.POLLHUP == 0 {
		t.Errorf("the guest has the pipe: %v, %v", fds[0].Revents, err)
	}
}

func TestForwardLeadsIntoANamespace(t *testing.T) {
	opts := options(t)
	opts.Bare, opts.Nodes = true, 1
	l := up(t, opts)
	netns := l.Name() + "-node1"
	var server net.Listener
	err := lab.InNetns(lab.NetnsPath(netns), func() (err error) {
		server, err = net.Listen("tcp", "192.168.16.1:7000")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			// The echo server answers after the client has closed its side.
			said, _ := io.ReadAll(conn)
			conn.Write([]byte(strings.ToUpper(string(said))))
			conn.Close()
		}
	}()
	defer func() { server.Close(); <-served }()

	entry, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lab.Forward(ctx, entry, netns, "192.168.16.1:7000") }()
	for range 3 {
		conn, err := net.Dial("tcp", entry.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		conn.Write([]byte("hello"))
		conn.(*net.TCPConn).CloseWrite()
		if answer, err := io.ReadAll(conn); err != nil || string(answer) != "HELLO" {
			t.Errorf("answer %q, %v", answer, err)
		}
		conn.Close()
	}
	idle, err := net.Dial("tcp", entry.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	cancel() // also with an idle connection
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestCtlConfigOfALabWhoseAgentsOthersRun(t *testing.T) {
	opts := options(t)
	opts.Bare = true
	l := up(t, opts)
	if err := l.WriteCtlConfig(map[string]string{"node1": filepath.Join(t.TempDir(), "x.sock")}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(l.CtlConfig())
	if err != nil || !strings.Contains(string(data), "node1: unix:///") || strings.Contains(string(data), "node2") {
		t.Errorf("%s, %v", data, err)
	}
}
