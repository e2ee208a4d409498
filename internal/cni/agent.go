package cni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/contiv/contiv/api/contiv/cniwire"
)

var errUnreachable = errors.New("the Contiv agent of this node is not reachable")

// maxRequest leaves room for the message's other fields, in bytes.
const maxRequest = cniwire.MaxSize - 1<<10

// callAgent makes one call. The error wraps errUnreachable, is a *cniwire.Error if the agent did
// not serve the request, or a *types.Error if the request is invalid.
func callAgent(ctx context.Context, server, method string, request, reply any) error {
	data, err := json.Marshal(request)
	if err != nil {
		return err
	}
	if len(data) > maxRequest {
		return types.NewError(types.ErrInvalidNetworkConfig, "the network configuration is too large",
			fmt.Sprintf("the request to the agent has %d bytes: at most %d are allowed", len(data), maxRequest))
	}
	conn, err := dialAgent(ctx, server)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })
	defer stop()
	answer, err := exchange(conn, &cniwire.Call{Method: method, TimeoutNs: agentTime(ctx).Nanoseconds(), Request: data})
	switch {
	case ctx.Err() != nil:
		return &cniwire.Error{Code: cniwire.DeadlineExceeded, Message: "the agent did not answer in time"}
	case errors.Is(err, cniwire.ErrNotSpoken):
		return &cniwire.Error{Code: cniwire.Unavailable, Message: fmt.Sprintf("%s is not the socket of an agent of this version: "+
			"the agent is older than contiv-cni and must be updated, or \"grpcServer\" is wrong", server)}
	case err != nil:
		return &cniwire.Error{Code: cniwire.Unavailable, Message: fmt.Sprintf("the agent closed the connection before it answered: %v", err)}
	case answer.Code != cniwire.OK:
		return &cniwire.Error{Code: answer.Code, Message: answer.Message}
	}
	if err := json.Unmarshal(answer.Reply, reply); err != nil {
		return fmt.Errorf("read the agent's reply: %w", err)
	}
	return nil
}

func exchange(conn net.Conn, call *cniwire.Call) (*cniwire.Answer, error) {
	writeErr := cniwire.Write(conn, call)
	// An agent that stopped reading the call may have answered with the reason.
	answer := &cniwire.Answer{}
	err := cniwire.Read(conn, answer)
	if err != nil && writeErr != nil && !errors.Is(err, cniwire.ErrNotSpoken) {
		err = writeErr
	}
	return answer, err
}

// agentTime is the agent's share of the deadline, short enough for its error to arrive in time. It
// is 0 without a deadline.
func agentTime(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return 0
	}
	left := time.Until(deadline)
	return max(left-min(left/10, time.Second), 1)
}

func dialAgent(ctx context.Context, server string) (net.Conn, error) {
	const busyPause = 10 * time.Millisecond
	network := "tcp"
	if strings.HasPrefix(server, "/") {
		network = "unix"
	}
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
		switch {
		case err == nil:
			return conn, nil
		case ctx.Err() != nil:
			return nil, &cniwire.Error{Code: cniwire.DeadlineExceeded, Message: fmt.Sprintf("the agent did not accept the connection in time: %v", err)}
		case !errors.Is(err, syscall.EAGAIN):
			return nil, fmt.Errorf("%w at %s: %w; check that it runs and that \"grpcServer\" is the path of its socket", errUnreachable, server, err)
		}
		// The backlog of the socket is full.
		select {
		case <-ctx.Done():
		case <-time.After(busyPause):
		}
	}
}

// AgentStatus requests the status of the agent at a path or host:port.
func AgentStatus(ctx context.Context, server string) (*cniwire.StatusReply, error) {
	reply := &cniwire.StatusReply{}
	if err := callAgent(ctx, server, cniwire.Status, &cniwire.StatusRequest{}, reply); err != nil {
		return nil, err
	}
	return reply, nil
}
