package northbound

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// firstAddition is the number from which on fields of ligato's messages are ours.
const firstAddition = 1000

// describeFile describes a file for clients. Ligato's files are described without our
// additional fields: its clients compare the description with what they were built
// with, and do not accept more.
func describeFile(file protoreflect.FileDescriptor) *descriptorpb.FileDescriptorProto {
	described := protodesc.ToFileDescriptorProto(file)
	if strings.HasPrefix(string(file.Package()), "ligato.") {
		for _, m := range described.GetMessageType() {
			removeAdditions(m)
		}
	}
	return described
}

func removeAdditions(m *descriptorpb.DescriptorProto) {
	for _, nested := range m.GetNestedType() {
		removeAdditions(nested)
	}
	m.Field = slices.DeleteFunc(m.Field, func(f *descriptorpb.FieldDescriptorProto) bool { return f.GetNumber() >= firstAddition })
	// What is left without fields is no oneof.
	var oneofs []*descriptorpb.OneofDescriptorProto
	for i, oneof := range m.GetOneofDecl() {
		used := false
		for _, f := range m.GetField() {
			if f.OneofIndex != nil && f.GetOneofIndex() == int32(i) {
				f.OneofIndex, used = proto.Int32(int32(len(oneofs))), true
			}
		}
		if used {
			oneofs = append(oneofs, oneof)
		}
	}
	m.OneofDecl = oneofs
}
