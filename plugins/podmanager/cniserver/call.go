package cniserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// method calls the service with a request in JSON.
type method func(ctx context.Context, request []byte) (proto.Message, error)

func methodsOf(s cni.RemoteCNIServer) map[string]method {
	return map[string]method{
		cniwire.Add:            decoding(s.Add),
		cniwire.Delete:         decoding(s.Delete),
		cniwire.Check:          decoding(s.Check),
		cniwire.Status:         decoding(s.Status),
		cniwire.CollectGarbage: decoding(s.CollectGarbage),
	}
}

func decoding[T any, Request interface {
	*T
	proto.Message
}, Reply proto.Message](call func(context.Context, Request) (Reply, error)) method {
	return func(ctx context.Context, data []byte) (proto.Message, error) {
		request := Request(new(T))
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, request); err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "the request cannot be read: %v", err)
		}
		return call(ctx, request)
	}
}

// serveCall reads the call of a connection, whose Magic has been read, and answers.
func (s *Server) serveCall(conn net.Conn) {
	var call cniwire.Call
	reply, err := proto.Message(nil), cniwire.ReadBody(conn, &call)
	var broken net.Error
	switch {
	case errors.As(err, &broken):
		return // nobody is there
	case err != nil:
		err = status.Errorf(codes.InvalidArgument, "the call cannot be read: %v", err)
	default:
		reply, err = s.call(conn, call)
	}
	answer, sendErr := answerOf(reply, err), error(nil)
	conn.SetDeadline(time.Now().Add(helloTimeout))
	if sendErr = cniwire.Write(conn, answer); errors.Is(sendErr, cniwire.ErrTooLarge) {
		sendErr = cniwire.Write(conn, answerOf(nil, status.Errorf(codes.ResourceExhausted, "the reply is too large: %v", sendErr)))
	}
	if sendErr != nil {
		s.log.Debug("The caller of a CNI request has gone", "method", call.Method, "error", sendErr)
	}
}

// call makes the call. It is cancelled when the caller closes the connection, its
// time is over, or the server is stopped.
func (s *Server) call(conn net.Conn, call cniwire.Call) (reply proto.Message, err error) {
	method, known := s.methods[call.Method]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "the agent does not know the method %q: it is older than contiv-cni", call.Method)
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	if call.TimeoutNs > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(call.TimeoutNs))
		defer cancel()
	}
	conn.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var more [1]byte
		_, _ = conn.Read(more[:]) // returns when the caller has gone: it says no more
		cancel()
	}()
	defer func() {
		conn.SetReadDeadline(time.Now())
		<-gone
	}()
	defer s.recoverPanic(call.Method, &err)
	return method(ctx, call.Request)
}

func answerOf(reply proto.Message, err error) *cniwire.Answer {
	if err == nil {
		var data []byte
		if data, err = (protojson.MarshalOptions{UseProtoNames: true}).Marshal(reply); err == nil {
			return &cniwire.Answer{Reply: data}
		}
		err = fmt.Errorf("the reply cannot be encoded: %w", err)
	}
	s := status.Convert(err)
	return &cniwire.Answer{Code: cniwire.Code(s.Code()), Message: s.Message()}
}
