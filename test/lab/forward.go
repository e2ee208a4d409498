package lab

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
)

// Forward proxies the connections of the listener to a TCP address in a network namespace until ctx
// ends. It closes the listener.
func Forward(ctx context.Context, l net.Listener, netns, address string) error {
	ctx, cancel := context.WithCancel(ctx)
	var connections sync.WaitGroup
	defer connections.Wait()
	defer cancel()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		client, err := l.Accept()
		if err != nil {
			l.Close()
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		}
		connections.Go(func() {
			defer client.Close()
			server, err := dialIn(ctx, NetnsPath(netns), "tcp", address)
			if err != nil {
				return
			}
			defer server.Close()
			defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
			join(client, server)
		})
	}
}

func join(a, b net.Conn) {
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{a, b}, {b, a}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			if tcp, ok := pair[0].(*net.TCPConn); ok {
				_ = tcp.CloseWrite() // the other direction may still be open
			}
		})
	}
	copying.Wait()
}
