package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/listener"
)

// Clients that send nothing, or too much, lose their connection.
func TestConnectionsThatSendNothing(t *testing.T) {
	server, err := Listen(listener.Options{AllowUnauthenticated: true}, nil, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if server.timeouts.header <= 0 || server.timeouts.write <= server.timeouts.idle || server.timeouts.request <= 0 || server.timeouts.idle <= 0 {
		t.Errorf("by default: %+v", server.timeouts)
	}
	server.timeouts = timeouts{time.Second, 5 * time.Second, time.Minute, 100 * time.Millisecond} // enough to send a huge request
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- server.Serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, err := io.Copy(io.Discard, r.Body); err != nil {
				Error(w, http.StatusRequestEntityTooLarge, err)
			}
		}))
	}()
	for name, sent := range map[string]string{
		"no header":  "GET / HT",
		"no body":    "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nx",
		"idle":       "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"huge":       fmt.Sprintf("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", maxBody+1, strings.Repeat("x", maxBody+1)),
		"nothing":    "",
		"no request": strings.Repeat("\x00", 100),
	} {
		conn, err := net.Dial("tcp", server.Addrs()[0].String())
		if err != nil {
			t.Fatal(err)
		}
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		go io.WriteString(conn, sent)
		answer, err := io.ReadAll(conn) // until the server closes it
		if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: the connection stays", name)
		}
		if name == "huge" && !strings.Contains(string(answer), "413") {
			t.Errorf("%s: %.200q", name, answer)
		}
		conn.Close()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
