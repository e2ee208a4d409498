package northbound

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// firstAddition is the lowest number of the fields that we add to ligato's messages.
const firstAddition = 1000

// describeFile describes a file for clients. It omits our additional fields in ligato's files,
// because ligato's clients reject a description with fields that they do not know.
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
	// Remove oneofs without fields.
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
