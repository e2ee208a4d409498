package cniserver_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/plugins/podmanager/cniserver"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type service struct {
	cni.UnimplementedRemoteCNIServer
	began, cancelled chan struct{}
}

func (s *service) Add(ctx context.Context, r *cni.CNIRequest) (*cni.CNIReply, error) {
	switch r.GetContainerId() {
	case "panic":
		panic("made to panic")
	case "refuse":
		return nil, status.Error(codes.Unavailable, "not now")
	case "large":
		return &cni.CNIReply{Error: strings.Repeat("x", cniwire.MaxSize)}, nil
	case "wait":
		s.began <- struct{}{}
		<-ctx.Done()
		s.cancelled <- struct{}{}
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return &cni.CNIReply{Error: r.GetContainerId() + " in " + r.GetNetworkNamespace(), AgentDurationNs: 1 << 60}, nil
}

type site struct {
	*service
	server *cniserver.Server
	socket string
	served chan error
}

func serve(t *testing.T) *site {
	t.Helper()
	s := &site{service: &service{began: make(chan struct{}, 1), cancelled: make(chan struct{}, 1)},
		socket: filepath.Join(t.TempDir(), "cni.sock"), served: make(chan error, 1)}
	l, err := listener.Unix(s.socket)
	if err != nil {
		t.Fatal(err)
	}
	s.server = cniserver.New(s.service, slog.New(slog.DiscardHandler))
	go func() { s.served <- s.server.Serve(l) }()
	t.Cleanup(func() { s.stop(t) })
	return s
}

func (s *site) stop(t *testing.T) {
	t.Helper()
	s.server.Stop(t.Context())
	if s.served == nil {
		return
	}
	if err := <-s.served; err != nil {
		t.Errorf("serve: %v", err)
	}
	s.served = nil
}

func (s *site) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

func (s *site) send(t *testing.T, method, container string, timeout time.Duration) net.Conn {
	t.Helper()
	conn := s.dial(t)
	request, err := json.Marshal(&cniwire.CNIRequest{ContainerID: container, NetworkNamespace: "/n"})
	if err == nil {
		err = cniwire.Write(conn, &cniwire.Call{Method: method, TimeoutNs: timeout.Nanoseconds(), Request: request})
	}
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func answer(t *testing.T, conn net.Conn) (a cniwire.Answer) {
	t.Helper()
	if err := cniwire.Read(conn, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestCalls(t *testing.T) {
	s := serve(t)
	for container, want := range map[string]struct {
		code codes.Code
		text string
	}{
		"c1":     {codes.OK, `"error":"c1 in /n","agent_duration_ns":"1152921504606846976"`},
		"panic":  {codes.Internal, "made to panic"},
		"refuse": {codes.Unavailable, "not now"},
		"large":  {codes.ResourceExhausted, "too large"},
	} {
		got := answer(t, s.send(t, cniwire.Add, container, time.Minute))
		var reply bytes.Buffer
		if len(got.Reply) > 0 {
			json.Compact(&reply, got.Reply)
		}
		if codes.Code(got.Code) != want.code || !strings.Contains(got.Message+reply.String(), want.text) {
			t.Errorf("%s: %d %q %s", container, got.Code, got.Message, reply.String())
		}
	}
	if got := answer(t, s.send(t, "Repair", "c1", 0)); codes.Code(got.Code) != codes.Unimplemented || !strings.Contains(got.Message, `"Repair"`) {
		t.Errorf("unknown method: %+v", got)
	}
	if got := answer(t, s.send(t, cniwire.Check, "c1", 0)); codes.Code(got.Code) != codes.Unimplemented {
		t.Errorf("unimplemented: %+v", got)
	}
}

func TestGRPC(t *testing.T) {
	s := serve(t)
	conn, err := grpc.NewClient("unix://"+s.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := cni.NewRemoteCNIClient(conn)
	for range 2 {
		if _, err := client.Add(t.Context(), &cni.CNIRequest{ContainerId: "panic"}); status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "made to panic") {
			t.Errorf("panic: %v", err)
		}
		reply, err := client.Add(t.Context(), &cni.CNIRequest{ContainerId: "c1", NetworkNamespace: "/n", ExtraNwConfig: strings.Repeat("x", 1<<20)})
		if err != nil || reply.Error != "c1 in /n" {
			t.Errorf("%v, %v", reply, err)
		}
	}
}

func (s *site) awaitCancelled(t *testing.T, what string) {
	t.Helper()
	select {
	case <-s.cancelled:
	case <-time.After(20 * time.Second):
		t.Errorf("%s: the call goes on", what)
	}
}

func TestCallsEnd(t *testing.T) {
	t.Run("when the caller is killed", func(t *testing.T) {
		s := serve(t)
		conn := s.send(t, cniwire.Add, "wait", 0)
		<-s.began
		conn.Close()
		s.awaitCancelled(t, "closed")
	})
	t.Run("when their time is over", func(t *testing.T) {
		s := serve(t)
		conn := s.send(t, cniwire.Add, "wait", 20*time.Millisecond)
		<-s.began
		s.awaitCancelled(t, "time-out")
		if got := answer(t, conn); got.Code != cniwire.DeadlineExceeded {
			t.Errorf("%+v", got)
		}
	})
	t.Run("when the server has to stop", func(t *testing.T) {
		s := serve(t)
		conn := s.send(t, cniwire.Add, "wait", 0)
		<-s.began
		silent := s.dial(t)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		s.server.Stop(ended)
		s.awaitCancelled(t, "stopped")
		if got := answer(t, conn); got.Code != cniwire.Canceled {
			t.Errorf("%+v", got)
		}
		if _, err := silent.Read(make([]byte, 1)); err == nil {
			t.Error("a connection without a call is not closed")
		}
	})
}

func TestStopIsGraceful(t *testing.T) {
	s := serve(t)
	conn := s.send(t, cniwire.Add, "wait", 200*time.Millisecond)
	<-s.began
	s.dial(t)
	began := time.Now()
	s.stop(t)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("stopping took %v", took)
	}
	if got := answer(t, conn); got.Code != cniwire.DeadlineExceeded {
		t.Errorf("%+v", got)
	}
	if _, err := net.Dial("unix", s.socket); err == nil {
		t.Error("it still listens")
	}
}

func TestStrangeCallers(t *testing.T) {
	s := serve(t)
	announce := func(size uint32) string { return cniwire.Magic + string(binary.BigEndian.AppendUint32(nil, size)) }
	frame := func(body string) string { return announce(uint32(len(body))) + body }
	for name, test := range map[string]struct{ data, want string }{
		"HTTP":                 {"GET / HTTP/1.1\r\n\r\n", ""},
		"half a magic":         {"CN", ""},
		"no length":            {"CNI1\x00", "cannot be read"},
		"more than allowed":    {announce(1<<31) + "{}", "at most"},
		"less than announced":  {announce(100) + "{}", "cannot be read"},
		"no JSON":              {frame("{{{{"), "cannot be read"},
		"another JSON":         {frame("[]"), "cannot be read"},
		"no request":           {frame(`{"method":"Add"}`), "cannot be read"},
		"a strange request":    {frame(`{"method":"Add","request":{"version": []}}`), "cannot be read"},
		"negative time":        {frame(`{"method":"Add","timeout_ns":-5,"request":{"container_id":"refuse"}}`), "not now"},
		"fields of the future": {frame(`{"method":"Add","x":1,"request":{"y":2,"container_id":"refuse"},"z":[]}`), "not now"},
	} {
		conn := s.dial(t)
		if _, err := io.WriteString(conn, test.data); err != nil {
			t.Fatal(err)
		}
		conn.(*net.UnixConn).CloseWrite()
		var got cniwire.Answer
		err := cniwire.Read(conn, &got)
		switch {
		case test.want == "" && err == nil:
			t.Errorf("%s: answered %+v", name, got)
		case test.want != "" && (err != nil || !strings.Contains(got.Message, test.want)):
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if got := answer(t, s.send(t, cniwire.Add, "c1", 0)); got.Code != cniwire.OK {
		t.Errorf("afterwards: %+v", got)
	}
}

func TestAgentWithoutTheProtocol(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "cni.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	cni.RegisterRemoteCNIServer(server, &service{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l)
	}()
	defer func() {
		server.Stop()
		<-done
	}()
	s := &site{socket: l.Addr().String()}
	var got cniwire.Answer
	if err := cniwire.Read(s.send(t, cniwire.Add, "c1", 0), &got); !errors.Is(err, cniwire.ErrNotSpoken) {
		t.Errorf("%+v, %v", got, err)
	}
}
