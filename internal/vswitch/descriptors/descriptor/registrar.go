package descriptor

import (
	"fmt"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models/valid"
	"google.golang.org/protobuf/proto"
)

// NoMeta is the metadata of descriptors without metadata.
type NoMeta = kvscheduler.NoMetadata

// Registrar registers descriptors until one fails.
type Registrar struct {
	s   *kvscheduler.Scheduler
	err error
}

// NewRegistrar returns a registrar for s.
func NewRegistrar(s *kvscheduler.Scheduler) *Registrar { return &Registrar{s: s} }

// Scheduler returns the scheduler of the descriptors.
func (r *Registrar) Scheduler() *kvscheduler.Scheduler { return r.s }

// Err returns the first error.
func (r *Registrar) Err() error { return r.err }

// Register registers a descriptor unless an earlier one failed.
func Register[V proto.Message, M any](r *Registrar, d kvscheduler.Descriptor[V, M]) {
	if r.err != nil {
		return
	}
	d.Retriable = retriable
	if d.NB {
		d.Validate = valid.Checked(d.Validate)
	}
	if err := kvscheduler.Register(r.s, d); err != nil {
		r.err = fmt.Errorf("registering descriptor %s: %w", d.Name, err)
	}
}
