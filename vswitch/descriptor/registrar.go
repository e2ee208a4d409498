package descriptor

import (
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// NoMeta is the metadata of descriptors that have none.
type NoMeta = kvscheduler.NoMetadata

// Registrar registers descriptors until one fails.
type Registrar struct {
	s   *kvscheduler.Scheduler
	err error
}

// NewRegistrar returns a registrar for s.
func NewRegistrar(s *kvscheduler.Scheduler) *Registrar { return &Registrar{s: s} }

// Scheduler returns the scheduler that the descriptors are registered with.
func (r *Registrar) Scheduler() *kvscheduler.Scheduler { return r.s }

// Err returns the first error.
func (r *Registrar) Err() error { return r.err }

// Register registers a descriptor unless one before it failed.
func Register[V proto.Message, M any](r *Registrar, d kvscheduler.Descriptor[V, M]) {
	if r.err != nil {
		return
	}
	d.Retriable = retriable
	if d.NB {
		d.Validate = checked(d.Validate)
	}
	if err := kvscheduler.Register(r.s, d); err != nil {
		r.err = fmt.Errorf("registering descriptor %s: %w", d.Name, err)
	}
}

// checked refuses what is wrong in any model before validate looks at the value. Descriptors
// need not reckon with it.
func checked[V proto.Message](validate func(string, V) error) func(string, V) error {
	return func(key string, value V) error {
		if err := models.Check(value); err != nil {
			return kvscheduler.NewInvalidValueError(err, err.Path)
		}
		if validate == nil {
			return nil
		}
		return validate(key, value)
	}
}
