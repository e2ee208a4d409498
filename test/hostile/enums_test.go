package hostile

import (
	"context"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/internal/vswitch/kernel"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestUndefinedEnums: every model rejects an undefined enum number in any field before a driver
// sees it.
func TestUndefinedEnums(t *testing.T) {
	netns := addNetns(t, "enums")
	a := &agent{t: t, netns: netns, open: func() vswitch.VSwitch {
		vs, err := kernel.New(kernel.Options{NetNS: pathOf(netns), Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		return vs
	}}
	a.start()
	t.Cleanup(func() { a.close() })
	for _, m := range models.All() {
		if strings.HasPrefix(m.KeyPrefix(), "config/contiv/") || strings.HasPrefix(m.KeyPrefix(), "contiv/") {
			continue
		}
		for _, sample := range Samples(t, root, m) {
			for _, value := range withUndefinedEnum(sample) {
				key := m.Key(value)
				txn := a.NewTransaction()
				txn.Put(key, value)
				txn.Commit(context.Background())
				if s := a.ValueStatus(key).GetValue(); s.GetState() != pb.ValueState_INVALID || !strings.Contains(s.GetError(), "9999") {
					t.Errorf("%s with %v is %v: %s", key, value, s.GetState(), s.GetError())
				}
			}
		}
	}
}

// withUndefinedEnum returns one copy of a value per enum field, with the number 9999 in that field.
func withUndefinedEnum(value proto.Message) (values []proto.Message) {
	var visit func(m protoreflect.Message)
	visit = func(m protoreflect.Message) {
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			switch fd := fields.Get(i); {
			case fd.IsMap() || fd.ContainingOneof() != nil && !m.Has(fd):
			case fd.Enum() != nil && !fd.IsList():
				had, was := m.Has(fd), m.Get(fd)
				m.Set(fd, protoreflect.ValueOfEnum(9999))
				values = append(values, proto.Clone(value))
				if m.Set(fd, was); !had {
					m.Clear(fd)
				}
			case fd.Message() != nil && fd.IsList():
				for j := range m.Get(fd).List().Len() {
					visit(m.Get(fd).List().Get(j).Message())
				}
			case fd.Message() != nil && m.Has(fd):
				visit(m.Get(fd).Message())
			}
		}
	}
	visit(value.ProtoReflect())
	return values
}
