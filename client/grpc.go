package client

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/api/ligato/generic"
	"github.com/contiv/contiv/internal/lib/parallel"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// maxMessage is the maximum size of an answer, in bytes. The agent limits requests.
const maxMessage = 64 << 20

// Metadata of calls and answers, see docs/user/grpc.md.
const (
	clientMetadata  = "contiv-client"
	revertMetadata  = "contiv-revert"
	eventMetadata   = "contiv-event"
	txnMetadata     = "seqnum"
	warningMetadata = "contiv-warning"
)

// GRPC configures DialGRPC. The zero value is a client named "default" without TLS.
type GRPC struct {
	// Name of the client; "" means "default". The agent keeps the values of each name separately.
	Name string
	// TLS includes the client certificate, if any; nil: no TLS.
	TLS         *tls.Config
	DialOptions []grpc.DialOption
}

// DialGRPC returns a client of the agent at the address "unix:///path" or "host:port". It connects
// when first used, and reconnects.
func DialGRPC(address string, o GRPC) (*Client, error) {
	security := insecure.NewCredentials()
	if o.TLS != nil {
		security = credentials.NewTLS(o.TLS)
	}
	options := append([]grpc.DialOption{
		grpc.WithTransportCredentials(security),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, o.DialOptions...)
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return nil, fmt.Errorf("gRPC address %q: %w: use unix:///PATH or HOST:PORT", address, err)
	}
	name := o.Name
	if name == "" {
		name = "default"
	}
	return &Client{&grpcTransport{
		address: address, name: name, conn: conn,
		manager: generic.NewManagerServiceClient(conn), status: rpc.NewStatusServiceClient(conn),
	}}, nil
}

// grpcTransport uses generic.ManagerService, which supports all kinds of values and, with Contiv's
// metadata, all features of rpc.DataChangeService.
type grpcTransport struct {
	address, name string
	conn          *grpc.ClientConn
	manager       generic.ManagerServiceClient
	status        rpc.StatusServiceClient
}

func (g *grpcTransport) close() error { return g.conn.Close() }

func (g *grpcTransport) commit(ctx context.Context, c *change) (*Result, error) {
	request := &generic.SetConfigRequest{OverwriteAll: c.replace}
	for _, key := range c.keys() {
		if c.replace && c.values[key] == nil {
			continue // Replace removes it
		}
		item, err := itemOf(key, c.values[key])
		if err != nil {
			return nil, &RequestError{err}
		}
		request.Updates = append(request.Updates, &generic.UpdateItem{Item: item})
	}
	ctx = metadata.AppendToOutgoingContext(ctx, clientMetadata, g.name, revertMetadata, strconv.FormatBool(c.revert))
	var header metadata.MD
	_, err := g.manager.SetConfig(ctx, request, grpc.Header(&header))
	result := c.result()
	result.Event, result.Transaction = number(header, eventMetadata), number(header, txnMetadata)
	for _, warning := range header.Get(warningMetadata) {
		if text, err := strconv.Unquote(warning); err == nil {
			warning = text
		}
		result.Warnings = append(result.Warnings, warning)
	}
	if err = g.commitError(err); err == nil {
		return result, nil
	}
	if e, ok := errors.AsType[*TransactionError](err); ok && !e.Reverted {
		return result, err
	}
	return nil, err
}

func number(md metadata.MD, name string) *uint64 {
	for _, text := range md.Get(name) {
		if n, err := strconv.ParseUint(text, 10, 64); err == nil {
			return &n
		}
	}
	return nil
}

// itemOf returns the item of a value; a nil value requests its removal.
func itemOf(key string, value proto.Message) (*generic.Item, error) {
	m, ok := models.ForKey(key)
	if !ok {
		return nil, models.CheckKey(key)
	}
	item := &generic.Item{Id: &generic.Item_ID{Model: m.Name(), Name: strings.TrimPrefix(key, m.KeyPrefix())}}
	if value == nil {
		return item, nil
	}
	data, err := anypb.New(value)
	item.Data = &generic.Data{Union: &generic.Data_Any{Any: data}}
	return item, err
}

// commitError converts the error of a SetConfig call.
func (g *grpcTransport) commitError(err error) error {
	st := status.Convert(err)
	for _, detail := range st.Details() {
		if e, ok := detail.(*rpc.TransactionError); ok {
			return &TransactionError{
				Items: e.GetItems(), Omitted: int(e.GetOmitted()), Transaction: e.Transaction, Reverted: e.GetReverted(), Text: st.Message(),
			}
		}
	}
	switch st.Code() {
	case codes.OK:
		return nil
	case codes.InvalidArgument:
		return &RequestError{errors.New(st.Message())}
	case codes.Unavailable:
		if strings.Contains(st.Message(), "while dialing") {
			return g.readError(err) // nothing was sent
		}
		return fmt.Errorf("%w: %w", ErrUnanswered, g.readError(err))
	case codes.DeadlineExceeded, codes.Canceled:
		return fmt.Errorf("%w: %w", ErrUnanswered, g.readError(err))
	}
	return g.readError(err)
}

// readError converts the error of any other call.
func (g *grpcTransport) readError(err error) error {
	st := status.Convert(err)
	switch st.Code() {
	case codes.OK:
		return nil
	case codes.InvalidArgument:
		return &RequestError{errors.New(st.Message())}
	case codes.Unimplemented:
		return fmt.Errorf("the agent at %s does not support this call; it may be older than this client: %s", g.address, st.Message())
	case codes.DeadlineExceeded:
		return &callError{fmt.Sprintf("the agent at %s: %s", g.address, st.Message()), context.DeadlineExceeded}
	case codes.Canceled:
		return &callError{fmt.Sprintf("the agent at %s: %s", g.address, st.Message()), context.Canceled}
	}
	return &callError{fmt.Sprintf("the agent at %s: %s", g.address, cause(st)), err}
}

// cause returns the message of a status. For a failed connection, it is the error of the system
// without the wording of the gRPC library.
func cause(st *status.Status) string {
	if st.Code() != codes.Unavailable {
		return st.Message()
	}
	for _, step := range []string{"while dialing: ", "error reading server preface: remote error: "} {
		if _, why, is := strings.Cut(st.Message(), step); is {
			return strings.TrimSuffix(why, `"`)
		}
	}
	return "the connection ended: " + st.Message()
}

// callError replaces the text of an error but wraps its cause.
type callError struct {
	text  string
	cause error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.cause }

func (g *grpcTransport) own(ctx context.Context, selected selection) ([]Value, error) {
	return g.merged(metadata.AppendToOutgoingContext(ctx, clientMetadata, g.name), selected)
}

func (g *grpcTransport) merged(ctx context.Context, selected selection) ([]Value, error) {
	response, err := g.manager.GetConfig(ctx, &generic.GetConfigRequest{Ids: selected.ids()})
	if err != nil {
		return nil, g.readError(err)
	}
	items := response.GetItems()
	values := make([]Value, len(items))
	errs := parallel.Collect(len(items), func(begin, end int) (err error) {
		for i := begin; i < end && err == nil; i++ {
			values[i], err = valueOf(items[i].GetItem())
		}
		return err
	})
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return values, nil
}

// ids returns the IDs of the keys. It returns nil, which selects all, if any selector is a prefix.
func (s selection) ids() (ids []*generic.Item_ID) {
	for _, key := range s {
		m, known := models.ForKey(key)
		if strings.HasSuffix(key, "/") || !known {
			return nil
		}
		ids = append(ids, &generic.Item_ID{Model: m.Name(), Name: strings.TrimPrefix(key, m.KeyPrefix())})
	}
	return ids
}

func valueOf(item *generic.Item) (Value, error) {
	msg, err := item.GetData().GetAny().UnmarshalNew()
	if err != nil {
		return Value{}, fmt.Errorf("value %s of model %s: %w", item.GetId().GetName(), item.GetId().GetModel(), err)
	}
	m, known := models.ForMessage(msg)
	if !known {
		return Value{}, fmt.Errorf("value %s has the unknown model %s", item.GetId().GetName(), item.GetId().GetModel())
	}
	return Value{m.Key(msg), msg}, nil // the agent has checked the fields of the key
}

func (g *grpcTransport) watch(ctx context.Context, selected selection, follow bool) iter.Seq2[[]*Status, error] {
	return func(yield func([]*Status, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		stream, err := g.status.Watch(ctx, &rpc.StatusRequest{Keys: selected, Follow: follow})
		for err == nil {
			var response *rpc.StatusResponse
			if response, err = stream.Recv(); err == nil && !yield(response.GetStatuses(), nil) {
				return
			}
		}
		if err != io.EOF {
			yield(nil, g.readError(err))
		}
	}
}

// expected returns the zero value: SetConfig returns after the transaction.
func (g *grpcTransport) expected(context.Context, []string) (expected, error) { return expected{}, nil }
