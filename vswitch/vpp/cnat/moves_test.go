package cnat

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/session"
)

// Opened asks for flows before others can use the connection, which may take longer than endpoints are given to settle.
func TestFlowsAreLookedForWhenTheConnectionIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		v := New(session.New("/no/socket", nil), nil, nil, nil, nil)
		ended := make(chan struct{})
		go func() {
			v.moveFlows(ctx)
			close(ended)
		}()
		time.Sleep(10 * settle)
		synctest.Wait()
		select {
		case <-ended:
			t.Error("given up before there was a connection")
		default:
		}
		cancel()
		<-ended
	})
}
