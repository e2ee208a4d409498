package main

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/binapi/memclnt"
)

// watchdog calls hung when the VPP at the socket has not answered for so long, until ctx
// ends. A VPP that is not there, or goes, is nobody's concern here.
func watchdog(ctx context.Context, socket string, limit time.Duration, hung func()) {
	pause := min(limit/4, time.Second)
	var conn *vppapi.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	for ctx.Err() == nil {
		err := ask(ctx, &conn, socket, limit)
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			hung()
		}
		if err != nil && conn != nil {
			conn.Close()
			conn = nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// ask waits for a sign of life, on a connection that is made if there is none.
func ask(ctx context.Context, conn **vppapi.Conn, socket string, limit time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if *conn == nil {
		if *conn, err = vppapi.Dial(ctx, socket, "contiv-init"); err != nil {
			*conn = nil
			return err
		}
	}
	return (*conn).Call(ctx, &memclnt.ControlPing{}, &memclnt.ControlPingReply{})
}
