package cniserver_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/contiv/contiv/api/contiv/cni"
	"github.com/contiv/contiv/api/contiv/cniwire"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

func TestMessagesMatchTheService(t *testing.T) {
	for _, test := range []struct {
		message proto.Message
		wire    any
	}{
		{&cni.CNIRequest{}, &cniwire.CNIRequest{}},
		{&cni.CNIReply{}, &cniwire.CNIReply{}},
		{&cni.StatusRequest{}, &cniwire.StatusRequest{}},
		{&cni.StatusReply{}, &cniwire.StatusReply{}},
		{&cni.GarbageRequest{}, &cniwire.GarbageRequest{}},
		{&cni.GarbageReply{}, &cniwire.GarbageReply{}},
	} {
		fill(test.message.ProtoReflect())
		data, err := (protojson.MarshalOptions{UseProtoNames: true}).Marshal(test.message)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(test.wire); err != nil {
			t.Fatalf("%T from %s: %v", test.wire, data, err)
		}
		back, err := json.Marshal(test.wire)
		if err != nil {
			t.Fatal(err)
		}
		got := test.message.ProtoReflect().New().Interface()
		if err := protojson.Unmarshal(back, got); err != nil || !proto.Equal(got, test.message) {
			t.Errorf("%T lost something: %s became %s (%v)", test.wire, data, back, err)
		}
	}
}

func fill(m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		value := func() protoreflect.Value {
			switch field.Kind() {
			case protoreflect.StringKind:
				return protoreflect.ValueOfString(string(field.FullName()))
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.Uint32Kind:
				return protoreflect.ValueOfUint32(1<<32 - 1)
			case protoreflect.Uint64Kind:
				return protoreflect.ValueOfUint64(1<<64 - 1)
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(1)
			}
			panic("a kind of field that this test does not know: " + field.Kind().String())
		}
		switch {
		case field.IsList() && field.Message() != nil:
			list := m.Mutable(field).List()
			fill(list.AppendMutable().Message())
		case field.IsList():
			m.Mutable(field).List().Append(value())
		default:
			m.Set(field, value())
		}
	}
}
