package northbound

import (
	"fmt"

	"github.com/contiv/contiv/api/ligato/configurator"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// place is the section and field of configurator.Config for the values of a model.
type place struct{ section, field protoreflect.FieldDescriptor }

var places = func() map[protoreflect.FullName]place {
	index := make(map[protoreflect.FullName]place)
	sections := (&configurator.Config{}).ProtoReflect().Descriptor().Fields()
	for i := range sections.Len() {
		fields := sections.Get(i).Message().Fields()
		for j := range fields.Len() {
			index[fields.Get(j).Message().FullName()] = place{sections.Get(i), fields.Get(j)}
		}
	}
	return index
}()

// newConfig returns values as a configurator.Config with all sections. It omits values without a
// field there.
func newConfig(values []proto.Message) *configurator.Config {
	config := &configurator.Config{}
	m := config.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		m.Mutable(m.Descriptor().Fields().Get(i))
	}
	for _, value := range values {
		p, ok := places[proto.MessageName(value)]
		if !ok {
			continue
		}
		section := m.Mutable(p.section).Message()
		if p.field.IsList() {
			section.Mutable(p.field).List().Append(protoreflect.ValueOfMessage(value.ProtoReflect()))
		} else {
			section.Set(p.field, protoreflect.ValueOfMessage(value.ProtoReflect()))
		}
	}
	return config
}

// eachValue visits the values of a configuration with their keys until the first error.
func eachValue(config *configurator.Config, visit func(key string, value proto.Message) error) error {
	var err error
	one := func(field protoreflect.FieldDescriptor, m protoreflect.Message) bool {
		value := m.Interface()
		model, ok := models.ForMessage(value)
		if !ok {
			err = fmt.Errorf("%s: %s is not a model", field.Name(), proto.MessageName(value))
			return false
		}
		err = visit(model.Key(value), value)
		return err == nil
	}
	config.ProtoReflect().Range(func(_ protoreflect.FieldDescriptor, section protoreflect.Value) bool {
		section.Message().Range(func(field protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if !field.IsList() {
				return one(field, v.Message())
			}
			for i := range v.List().Len() {
				if !one(field, v.List().Get(i).Message()) {
					return false
				}
			}
			return true
		})
		return err == nil
	})
	return err
}
