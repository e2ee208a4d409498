package cniserver_test

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// A runtime with too many unfinished calls gets an error in each protocol. The limit exceeds the
// calls for all pods of a node at once.
func TestCallsTooMany(t *testing.T) {
	const most = 1024 // several for each of 110 pods
	s := serve(t)
	drain := func(from <-chan struct{}, calls int) {
		for range calls {
			<-from
		}
	}
	conns := make([]net.Conn, most)
	for i := range conns {
		conns[i] = s.send(t, cniwire.Add, "wait", 0)
	}
	drain(s.began, most)
	if got := answer(t, s.send(t, cniwire.Add, "c1", 0)); got.Code != cniwire.ResourceExhausted || !strings.Contains(got.Message, "1024 CNI requests") {
		t.Errorf("one too many: %+v", got)
	}
	conn, err := grpc.NewClient("unix://"+s.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := cni.NewRemoteCNIClient(conn).Add(t.Context(), &cni.CNIRequest{ContainerId: "c1"}); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one too many: %v", err)
	}
	for _, conn := range conns {
		conn.Close()
	}
	drain(s.cancelled, most)
	if got := answer(t, s.send(t, cniwire.Add, "c1", 0)); got.Code != cniwire.OK {
		t.Errorf("after the others have ended: %+v", got)
	}
}

func TestConnectionsTooMany(t *testing.T) {
	s := serve(t)
	var silent []net.Conn
	for range 2048 {
		silent = append(silent, s.dial(t))
	}
	last := s.dial(t)
	last.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := last.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("%v, want that it is closed", err)
	}
	for _, conn := range silent {
		conn.Close()
	}
	for started := time.Now(); ; {
		if err := s.ask(); err == nil {
			break
		} else if time.Since(started) > 20*time.Second {
			t.Fatalf("connections that were closed are counted: %v", err)
		}
	}
}

func (s *site) ask() error {
	conn, err := net.Dial("unix", s.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := cniwire.Write(conn, &cniwire.Call{Method: cniwire.Add, Request: []byte(`{"container_id":"c1"}`)}); err != nil {
		return err
	}
	var a cniwire.Answer
	return cniwire.Read(conn, &a)
}
