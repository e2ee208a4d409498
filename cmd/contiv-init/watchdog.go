package main

import (
	"context"
	"errors"
	"time"

	"github.com/contiv/contiv/internal/vswitch/vpp/vppapi"
	"go.fd.io/govpp/binapi/memclnt"
)

// watchdog calls hung, until ctx ends, when the VPP at the socket has not answered for the limit.
// life distinguishes successive runs of VPP. A VPP that is not running, or has not answered since
// its start, does not count as hung. A VPP that has answered and whose socket is gone hangs during
// its exit.
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
			answered.at = time.Time{} // only once per hang
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

// ask waits for an answer. It connects if conn is nil.
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
