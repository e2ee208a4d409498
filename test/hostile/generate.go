package hostile

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Value is a hostile value with a description of the hostile part.
type Value struct {
	proto.Message
	What string
}

func texts(overlap []string) []string {
	return append([]string{
		"", strings.Repeat("x", 256), strings.Repeat("9", 5000), "a\x00b", "\x1b[2J\x1b]0;x\a", "/proc/self/ns/mnt", "../../../../etc/passwd",
		"-1", "%s%n", "999.999.999.999", "0.0.0.0/0", "::/0", "127.0.0.1/8", "224.0.0.1", "255.255.255.255", "fe80::1%eth0", "::ffff:10.0.0.1",
		"ff:ff:ff:ff:ff:ff", "alloc:x", "alloc:none/none", "lo", "/dev/tty", "10.0.0.1/33", "é☃", " ", "a b", "host-name/x",
	}, overlap...)
}

const maxDepth = 4

// Generate returns variants of a sample with one hostile field each. overlap holds texts that other
// values use.
func Generate(sample proto.Message, overlap []string) (values []Value) {
	visit(sample, sample.ProtoReflect(), "", maxDepth, overlap, func(what string) {
		values = append(values, Value{proto.Clone(sample), what})
	})
	return values
}

// visit makes each field of m, a part of sample, hostile in turn and calls found.
func visit(sample proto.Message, m protoreflect.Message, path string, depth int, overlap []string, found func(what string)) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		name := path + string(fd.Name())
		had, value := m.Has(fd), m.Get(fd)
		if fd.IsList() && had {
			value = protoreflect.ValueOfList(copyOf(m, fd))
		}
		if fd.IsMap() {
			continue // a map that was read cannot be set back
		}
		restore := func() {
			if had {
				m.Set(fd, value)
			} else {
				m.Clear(fd)
			}
		}
		if od := fd.ContainingOneof(); od != nil && !had {
			if was := m.WhichOneof(od); was != nil {
				kept := m.Get(was)
				restore = func() { m.Set(was, kept) }
			}
		}
		m.Clear(fd)
		if had {
			found(name + " is not set")
		}
		switch {
		case fd.IsList():
			visitList(sample, m, fd, name, value, depth, overlap, found)
		case fd.Kind() == protoreflect.MessageKind:
			if depth > 0 {
				restore()
				inner := m.Mutable(fd).Message()
				found(name + " is empty")
				visit(sample, inner, name+".", depth-1, overlap, found)
			}
		default:
			for _, v := range scalars(fd, overlap) {
				m.Set(fd, v)
				found(fmt.Sprintf("%s is %.40q", name, v.String()))
			}
		}
		restore()
	}
}

func copyOf(m protoreflect.Message, fd protoreflect.FieldDescriptor) protoreflect.List {
	list, from := m.NewField(fd).List(), m.Get(fd).List()
	for i := range from.Len() {
		list.Append(from.Get(i))
	}
	return list
}

// visitList makes one item hostile, repeats it, and makes very many items.
func visitList(sample proto.Message, m protoreflect.Message, fd protoreflect.FieldDescriptor, name string, value protoreflect.Value, depth int, overlap []string, found func(string)) {
	const many = 300
	item := func() protoreflect.Value {
		if value.IsValid() && value.List().Len() > 0 {
			return value.List().Get(0)
		}
		return m.NewField(fd).List().NewElement()
	}
	set := func(n int, v protoreflect.Value) {
		list := m.NewField(fd).List()
		for range n {
			list.Append(v)
		}
		m.Set(fd, protoreflect.ValueOfList(list))
	}
	set(2, item())
	found(name + " has an item twice")
	set(many, item())
	found(name + " has very many items")
	if fd.Kind() != protoreflect.MessageKind {
		for _, v := range scalars(fd, overlap) {
			set(1, v)
			found(fmt.Sprintf("%s is [%.40q]", name, v.String()))
		}
		return
	}
	set(1, m.NewField(fd).List().NewElement())
	found(name + " has an empty item")
	if depth > 0 {
		first := item()
		clone := proto.Clone(first.Message().Interface()).ProtoReflect()
		set(1, protoreflect.ValueOfMessage(clone))
		visit(sample, clone, name+"[0].", depth-1, overlap, found)
	}
}

func scalars(fd protoreflect.FieldDescriptor, overlap []string) (values []protoreflect.Value) {
	switch fd.Kind() {
	case protoreflect.StringKind:
		for _, text := range texts(overlap) {
			values = append(values, protoreflect.ValueOfString(text))
		}
	case protoreflect.BytesKind:
		for _, text := range []string{"", "\x00", strings.Repeat("\xff", 5000)} {
			values = append(values, protoreflect.ValueOfBytes([]byte(text)))
		}
	case protoreflect.BoolKind:
		values = append(values, protoreflect.ValueOfBool(true), protoreflect.ValueOfBool(false))
	case protoreflect.EnumKind:
		for _, n := range []protoreflect.EnumNumber{-1, 99, math.MaxInt32, math.MinInt32} {
			values = append(values, protoreflect.ValueOfEnum(n))
		}
		for i := range fd.Enum().Values().Len() {
			values = append(values, protoreflect.ValueOfEnum(fd.Enum().Values().Get(i).Number()))
		}
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		for _, n := range []uint32{0, 1, 255, 65535, 65536, 1 << 24, math.MaxInt32, math.MaxUint32} {
			values = append(values, protoreflect.ValueOfUint32(n))
		}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		for _, n := range []int32{0, -1, math.MaxInt32, math.MinInt32} {
			values = append(values, protoreflect.ValueOfInt32(n))
		}
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		for _, n := range []uint64{0, 1, math.MaxInt64, math.MaxUint64} {
			values = append(values, protoreflect.ValueOfUint64(n))
		}
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		for _, n := range []int64{0, -1, math.MaxInt64, math.MinInt64} {
			values = append(values, protoreflect.ValueOfInt64(n))
		}
	case protoreflect.DoubleKind:
		for _, n := range []float64{0, -1, math.Inf(1), math.NaN()} {
			values = append(values, protoreflect.ValueOfFloat64(n))
		}
	case protoreflect.FloatKind:
		for _, n := range []float32{0, -1, float32(math.Inf(1)), float32(math.NaN())} {
			values = append(values, protoreflect.ValueOfFloat32(n))
		}
	}
	return values
}
