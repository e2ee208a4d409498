package contivgrpc

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/contiv/contiv/api/contiv/rpc"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Metadata of calls for options without a request field.
const (
	// ClientMetadata is the name of the client.
	ClientMetadata = "contiv-client"
	// RevertMetadata is "true" to apply all of the request or nothing.
	RevertMetadata = "contiv-revert"
)

// Options are the options in the metadata of calls.
type Options struct {
	Client string
	Revert bool
}

// OptionsOf decodes the metadata of a call; client is the default client name.
func OptionsOf(ctx context.Context, client string) (Options, error) {
	o := Options{Client: client}
	if values := metadata.ValueFromIncomingContext(ctx, ClientMetadata); len(values) > 0 {
		o.Client = values[0]
	}
	if values := metadata.ValueFromIncomingContext(ctx, RevertMetadata); len(values) > 0 {
		var err error
		if o.Revert, err = strconv.ParseBool(values[0]); err != nil {
			return o, fmt.Errorf("metadata %s: %q is neither true nor false", RevertMetadata, values[0])
		}
	}
	return o, nil
}

type verb int

const (
	putValues verb = iota
	deleteValues
	replaceValues
)

func changeOf(ctx context.Context, request *rpc.DataRequest, v verb) (Change, error) {
	options, err := OptionsOf(ctx, DefaultClient)
	errs := []error{err}
	if request.GetClient() != "" {
		options.Client = request.GetClient()
	}
	c := Change{
		Client:  options.Client,
		Revert:  options.Revert || request.GetRevert(),
		Replace: v == replaceValues,
		Values:  make(controller.ExternalConfig),
	}
	errs = append(errs, c.add(request, v == deleteValues))
	if removed := request.GetDelete(); removed != nil {
		if v == putValues {
			errs = append(errs, c.add(removed, true))
		} else {
			errs = append(errs, errors.New("field delete is for Put only: Del removes the values in the request, Resync the values missing in it"))
		}
		if removed.GetDelete() != nil {
			errs = append(errs, errors.New("field delete of the field delete makes no sense"))
		}
	}
	return c, errors.Join(errs...)
}

func (c *Change) add(request *rpc.DataRequest, remove bool) error {
	var errs []error
	if unknown := request.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		number, _, _ := protowire.ConsumeField(unknown)
		errs = append(errs, fmt.Errorf("this agent knows no field %d: values of that kind cannot be requested here", number))
	}
	request.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case field.Number() >= firstAddition:
		case field.IsList():
			for i := range v.List().Len() {
				if err := c.addValue(v.List().Get(i).Message(), remove); err != nil {
					errs = append(errs, fmt.Errorf("%s[%d]: %w", field.Name(), i, err))
				}
			}
		default:
			if err := c.addValue(v.Message(), remove); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", field.Name(), err))
			}
		}
		return true
	})
	return errors.Join(errs...)
}

const firstAddition = 1000

func (c *Change) addValue(m protoreflect.Message, remove bool) error {
	value := m.Interface()
	model, ok := models.ForMessage(value)
	if !ok {
		return fmt.Errorf("%s is no model", proto.MessageName(value))
	}
	key := model.Key(value)
	if !model.Matches(key) {
		return fmt.Errorf("%s without name: set the fields that name it", proto.MessageName(value))
	}
	if _, twice := c.Values[key]; twice {
		return fmt.Errorf("key %q is in the request twice: leave one of them out", key)
	}
	if remove {
		value = nil
	}
	c.Values[key] = value
	return nil
}
