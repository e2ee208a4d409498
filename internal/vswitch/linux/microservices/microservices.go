// Package microservices tracks the microservices on this node. Values of type MICROSERVICE refer to
// their network namespaces.
package microservices

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	linux_namespace "github.com/contiv/contiv/api/ligato/linux/namespace"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/types/known/emptypb"
)

// Place is the network namespace of a microservice.
type Place struct {
	NetNS string
	// ID distinguishes successive network namespaces at one path.
	ID string
}

// Set holds the microservices known to the scheduler. A change takes two transactions:
//
//	Run ──wanted──┐
//	              ├─> retire    values in microservices that end or move are deleted there
//	              └─> publish   then the new ones become known, and values are created
//
// The scheduler starts them when their turn comes. In between, references to an ending microservice
// still lead to its namespace, so that deletion leaves nothing behind there.
type Set struct {
	scheduler notifier

	mu      sync.Mutex
	wanted  map[string]Place // by label
	known   map[string]Place
	retired map[string]bool
}

// notifier is the part of the scheduler that receives changes. It calls its argument when the
// transaction's turn comes.
type notifier interface {
	PushSBNotifications(changes func() []kvscheduler.Notification) error
}

func New(s notifier) *Set { return &Set{scheduler: s} }

type item = kvscheduler.Item[*emptypb.Empty, string]

// Descriptor describes obtained values: the microservices on this node. Values in their network
// namespaces depend on them.
func (m *Set) Descriptor() kvscheduler.Descriptor[*emptypb.Empty, string] {
	prefix := models.LinuxMicroserviceKey("")
	return kvscheduler.Descriptor[*emptypb.Empty, string]{
		Name:     models.MicroserviceDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: prefix},
		KeyLabel: func(key string) string { return strings.TrimPrefix(key, prefix) },
		Retrieve: func(context.Context, []item) (items []item, err error) {
			for label, at := range m.present() {
				items = append(items, item{Key: models.LinuxMicroserviceKey(label), Value: &emptypb.Empty{}, Metadata: at.NetNS, Origin: kvscheduler.FromSB})
			}
			return items, nil
		},
	}
}

// Run sets the microservices of this node, by label. Values in a missing one stay pending. It does
// not wait for the scheduler.
func (m *Set) Run(running map[string]Place) error {
	if !m.want(running) {
		return nil
	}
	if err := m.scheduler.PushSBNotifications(m.retire); err != nil {
		return fmt.Errorf("microservices: %w", err)
	}
	if err := m.scheduler.PushSBNotifications(m.publish); err != nil {
		return fmt.Errorf("microservices: %w", err)
	}
	return nil
}

// want stores running and reports whether it changed.
func (m *Set) want(running map[string]Place) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.Equal(m.wanted, running) {
		return false
	}
	m.wanted = maps.Clone(running)
	return true
}

// retire returns notifications for microservices that moved or ended.
func (m *Set) retire() (changes []kvscheduler.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.retired = map[string]bool{}
	for _, label := range slices.Sorted(maps.Keys(m.known)) {
		if at, ok := m.wanted[label]; !ok || at != m.known[label] {
			m.retired[label] = true
			changes = append(changes, kvscheduler.Notification{Key: models.LinuxMicroserviceKey(label)})
		}
	}
	return changes
}

// publish removes the retired microservices and returns notifications for new ones. Changes after
// retire wait for the next call.
func (m *Set) publish() (changes []kvscheduler.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := maps.Clone(m.known)
	maps.DeleteFunc(known, func(label string, _ Place) bool { return m.retired[label] })
	m.retired = nil
	if known == nil {
		known = map[string]Place{}
	}
	for _, label := range slices.Sorted(maps.Keys(m.wanted)) {
		if _, ok := known[label]; ok {
			continue
		}
		known[label] = m.wanted[label]
		changes = append(changes, kvscheduler.Notification{Key: models.LinuxMicroserviceKey(label), Value: &emptypb.Empty{}, Metadata: known[label].NetNS})
	}
	m.known = known
	return changes
}

// present returns the microservices that may hold values, by label.
func (m *Set) present() map[string]Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	present := maps.Clone(m.known)
	maps.DeleteFunc(present, func(label string, _ Place) bool { return m.retired[label] })
	return present
}

// Path returns the network namespace file of a microservice.
func (m *Set) Path(label string) (path string, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, known := m.known[label]
	return at.NetNS, known
}

// Refs returns references to the namespaces of all microservices.
func (m *Set) Refs() (refs []*linux_namespace.NetNamespace) {
	for _, label := range slices.Sorted(maps.Keys(m.present())) {
		refs = append(refs, &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: label})
	}
	return refs
}

// Dependencies returns the dependencies of a value in a network namespace.
func Dependencies(ref *linux_namespace.NetNamespace) []kvscheduler.Dependency {
	if ref.GetType() != linux_namespace.NetNamespace_MICROSERVICE {
		return nil
	}
	return []kvscheduler.Dependency{{Label: "microservice-available", Key: models.LinuxMicroserviceKey(ref.GetReference())}}
}
