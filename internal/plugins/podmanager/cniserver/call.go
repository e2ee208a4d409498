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

func (s *Server) serveCall(conn net.Conn, arrived *arrival) {
	var call cniwire.Call
	reply, err := proto.Message(nil), cniwire.ReadBody(conn, &call)
	var broken net.Error
	switch {
	case errors.As(err, &broken):
		return
	case err != nil:
		err = status.Errorf(codes.InvalidArgument, "the call cannot be read: %v", err)
	default:
		reply, err = s.call(conn, arrived, call)
	}
	answer, sendErr := answerOf(reply, err), error(nil)
	conn.SetDeadline(time.Now().Add(helloTimeout))
	if sendErr = cniwire.Write(conn, answer); errors.Is(sendErr, cniwire.ErrTooLarge) {
		sendErr = cniwire.Write(conn, answerOf(nil, status.Errorf(codes.ResourceExhausted, "the reply is too large: %v", sendErr)))
	}
	if sendErr != nil {
		s.log.Debug("Caller of a CNI request disconnected", "method", call.Method, "error", sendErr)
	}
}

// call is cancelled when the caller closes the connection, the deadline passes, or the server
// stops.
func (s *Server) call(conn net.Conn, arrived *arrival, call cniwire.Call) (proto.Message, error) {
	ctx, end := s.whileConnected(conn, arrived)
	defer end()
	arrived.await(ctx)
	if call.TimeoutNs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(call.TimeoutNs))
		defer cancel()
	}
	return s.callMethod(ctx, call.Method, call.Request)
}

// whileConnected returns a context that ends when the caller closes the connection or the server
// stops. Call end before using the connection again.
func (s *Server) whileConnected(conn net.Conn, arrived *arrival) (_ context.Context, end func()) {
	ctx, cancel := context.WithCancel(context.WithValue(s.ctx, arrivalKey{}, arrived))
	conn.SetDeadline(time.Time{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var more [1]byte
		_, _ = conn.Read(more[:]) // returns when the caller has gone
		cancel()
	}()
	return ctx, func() {
		conn.SetReadDeadline(time.Now())
		<-gone
	}
}

func (s *Server) callMethod(ctx context.Context, name string, request []byte) (reply proto.Message, err error) {
	method, known := s.methods[name]
	if !known {
		return nil, status.Errorf(codes.Unimplemented, "the agent does not know the method %q: it is older than contiv-cni", name)
	}
	end, err := s.beginCall()
	if err != nil {
		return nil, err
	}
	defer end()
	defer s.recoverPanic(name, &err)
	if name == cniwire.Status || name == cniwire.CollectGarbage { // have no order
		Started(ctx)
	}
	return method(ctx, request)
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
