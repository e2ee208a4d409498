package record

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/anypb"
)

// Redacted replaces a secret.
const Redacted = "<redacted>"

// secretEndings are suffixes of the names of secret fields: keys of WireGuard and IPsec, passwords of
// sockets.
var secretEndings = []string{"private_key", "preshared_key", "crypto_key", "crypto_salt", "integ_key", "secret", "password"}

// holdsSecrets caches the results of maySecret by message descriptor.
var holdsSecrets sync.Map

// Redact returns the message with its secrets replaced by Redacted, numbers by 0, for dumps, histories and
// logs. It does not change its argument.
func Redact(v proto.Message) proto.Message {
	if _, raw := v.(*RawValue); raw || v == nil || !maySecret(v.ProtoReflect().Descriptor(), nil) {
		return v
	}
	v = proto.Clone(v)
	redact(v.ProtoReflect())
	return v
}

func isSecret(fd protoreflect.FieldDescriptor) bool {
	if fd.Message() != nil || fd.IsList() {
		return false
	}
	return slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(string(fd.Name()), ending) })
}

// maySecret reports whether messages of the type may hold secrets. within are the enclosing types.
func maySecret(d protoreflect.MessageDescriptor, within []protoreflect.FullName) bool {
	if known, ok := holdsSecrets.Load(d); ok {
		return known.(bool)
	}
	if slices.Contains(within, d.FullName()) {
		return false
	}
	may := d.FullName() == anyName
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		may = may || isSecret(fd) || fd.Message() != nil && maySecret(fd.Message(), append(within, d.FullName()))
	}
	if len(within) == 0 {
		holdsSecrets.Store(d, may)
	}
	return may
}

// anyName is the name of the type google.protobuf.Any.
var anyName = (&anypb.Any{}).ProtoReflect().Descriptor().FullName()

// redactAny redacts the message in an Any. It drops messages of unknown types.
func redactAny(m protoreflect.Message) {
	packed := &anypb.Any{}
	proto.Merge(packed, m.Interface())
	content, err := packed.UnmarshalNew()
	if err == nil {
		redact(content.ProtoReflect())
		err = packed.MarshalFrom(content)
	}
	if err != nil {
		packed.Value = nil
	}
	m.Set(m.Descriptor().Fields().ByName("value"), protoreflect.ValueOfBytes(packed.Value))
}

func redact(m protoreflect.Message) {
	if m.Descriptor().FullName() == anyName {
		redactAny(m)
		return
	}
	m.SetUnknown(nil) // a secret of a wrong type is among the unknown fields
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case isSecret(fd) && fd.Kind() == protoreflect.BytesKind:
			m.Set(fd, protoreflect.ValueOfBytes([]byte(Redacted)))
		case isSecret(fd) && fd.Kind() == protoreflect.StringKind:
			m.Set(fd, protoreflect.ValueOfString(Redacted))
		case isSecret(fd):
			m.Clear(fd)
		case fd.Message() == nil:
		case fd.IsMap():
			if fd.MapValue().Message() != nil {
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { redact(v.Message()); return true })
			}
		case fd.IsList():
			for i := range v.List().Len() {
				redact(v.List().Get(i).Message())
			}
		default:
			redact(v.Message())
		}
		return true
	})
}
