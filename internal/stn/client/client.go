// Package client is the client of the node's STN daemon (contiv-stn).
package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/contiv/contiv/api/contiv/stn"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
)

// Client is a connection to the daemon. It reconnects as needed.
type Client struct {
	conn    *grpc.ClientConn
	socket  string
	stn     stn.STNClient
	custody stn.CustodyClient
}

// New returns a client for the daemon at a socket. The caller closes it.
func New(socket string) (*Client, error) {
	conn, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 500 * time.Millisecond}, MinConnectTimeout: time.Second}))
	if err != nil {
		return nil, fmt.Errorf("socket %s of contiv-stn: %w", socket, err)
	}
	return &Client{conn: conn, socket: socket, stn: stn.NewSTNClient(conn), custody: stn.NewCustodyClient(conn)}, nil
}

func (c *Client) Close() { c.conn.Close() }

func (c *Client) answer(r *stn.STNReply, err error) (*stn.STNReply, error) {
	switch {
	case err != nil:
		return nil, fmt.Errorf("contiv-stn at %s: %w; check that it runs", c.socket, err)
	case r.GetResult() != 0:
		return nil, errors.New(r.GetError())
	}
	return r, nil
}

// Steal claims a network card and returns the host's configuration of it.
func (c *Client) Steal(ctx context.Context, name string, dhcp bool) (*stn.STNReply, error) {
	return c.answer(c.stn.StealInterface(ctx, &stn.STNRequest{InterfaceName: name, DhcpEnabled: dhcp}, grpc.WaitForReady(true)))
}

// Stolen returns the configuration of a claimed card, or of the first one for ""; nil if none is
// claimed.
func (c *Client) Stolen(ctx context.Context, name string) (*stn.STNReply, error) {
	r, err := c.stn.StolenInterfaceInfo(ctx, &stn.STNRequest{InterfaceName: name}, grpc.WaitForReady(true))
	if err == nil && r.GetResult() != 0 {
		return nil, nil
	}
	return c.answer(r, err)
}

// Release returns a card for good, or all cards for "".
func (c *Client) Release(ctx context.Context, name string) error {
	_, err := c.answer(c.stn.ReleaseInterface(ctx, &stn.STNRequest{InterfaceName: name}, grpc.WaitForReady(true)))
	return err
}

// Report is a report of Attend on whether the vswitch forwards.
type Report struct {
	Ready      bool
	Why        string // if not ready
	IPVersions []uint32
	// Waiting: the vswitch runs an earlier agent's configuration, and this agent does not know the
	// new one yet.
	Waiting bool
}

func (r Report) equal(other Report) bool {
	return r.Ready == other.Ready && r.Waiting == other.Waiting && r.Why == other.Why
}

// beat is the interval in which a report is repeated.
const beat = time.Second

// Attend sends the reports on a card to the daemon: at once when they change, otherwise about once
// per beat. It sends nothing while reports is empty. held is called with the holder of the card.
// Attend returns when the stream breaks or ctx ends.
func (c *Client) Attend(ctx context.Context, name string, reports <-chan Report, held func(*stn.Holding)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.custody.Attend(ctx, grpc.WaitForReady(true))
	if err != nil {
		return err
	}
	received := make(chan error, 1)
	go func() {
		for {
			h, err := stream.Recv()
			if err != nil {
				received <- err
				return
			}
			held(h)
		}
	}()
	var last Report
	var sent time.Time
	for {
		select {
		case <-ctx.Done():
			<-received
			return nil
		case err := <-received:
			return err
		case next := <-reports:
			if next.equal(last) && time.Since(sent) < beat {
				continue
			}
			last, sent = next, time.Now()
		}
		err := stream.Send(&stn.Forwarding{InterfaceName: name, Ready: last.Ready, Reason: last.Why, IpVersions: last.IPVersions, Waiting: last.Waiting})
		if err != nil {
			return <-received // the reason is in its error
		}
	}
}
