package main

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/binapi/memclnt"
)

// watchdog calls hung when the VPP at the socket has not answered for so long, until ctx
// ends. life tells one run of VPP from the next one, and from the time between them: a VPP
// that is not there is nobody's concern here, nor is one that has not answered since it
// began. One that has, and has no socket any more, hangs on its way out.
func watchdog(ctx context.Context, socket string, limit time.Duration, life func() int64, hung func()) {
	pause := min(limit/4, time.Second)
	var conn *vppapi.Conn
	defer func() {
		if conn != nil {
			conn.Close()
		}
	}()
	var answered struct {
		in int64
		at time.Time
	}
	for ctx.Err() == nil {
		now := life()
		err := ask(ctx, &conn, socket, limit)
		switch {
		case ctx.Err() != nil:
		case err == nil:
			answered.in, answered.at = now, time.Now()
		case errors.Is(err, context.DeadlineExceeded), !answered.at.IsZero() && answered.in == life() && time.Since(answered.at) >= limit:
			answered.at = time.Time{} // not again, while it ends
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
