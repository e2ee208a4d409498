package linux

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

// Microservice is where a microservice runs.
type Microservice struct {
	// NetNS is the path of its network namespace.
	NetNS string
	// ID tells network namespaces apart that follow each other at one path.
	ID string
}

// microservices are the microservices that the scheduler knows. A change takes two transactions:
//
//	SetMicroservices ──wanted──┐
//	                           ├─> retire    values in microservices that end or move are deleted there
//	                           └─> publish   then the new ones become known, and values are created
//
// The scheduler starts them when their turn comes. In between, references to an ending microservice
// still lead to its namespace, so that nothing is left behind if the namespace continues to exist.
type microservices struct {
	mu      sync.Mutex
	wanted  map[string]Microservice // by label
	known   map[string]Microservice
	retired map[string]bool
}

type microserviceItem = kvscheduler.Item[*emptypb.Empty, string]

// microserviceDescriptor describes obtained values: the microservices that run on this node.
// Values in their network namespaces depend on them.
func (p *Plugin) microserviceDescriptor() kvscheduler.Descriptor[*emptypb.Empty, string] {
	prefix := models.LinuxMicroserviceKey("")
	return kvscheduler.Descriptor[*emptypb.Empty, string]{
		Name:     models.MicroserviceDescriptor,
		Keys:     kvscheduler.KeySpace{Prefix: prefix},
		KeyLabel: func(key string) string { return strings.TrimPrefix(key, prefix) },
		Retrieve: func(context.Context, []microserviceItem) (items []microserviceItem, err error) {
			for label, at := range p.namespaces.microservices.present() {
				items = append(items, microserviceItem{Key: models.LinuxMicroserviceKey(label), Value: &emptypb.Empty{}, Metadata: at.NetNS, Origin: kvscheduler.FromSB})
			}
			return items, nil
		},
	}
}

// SetMicroservices says which microservices run on this node, by label. Values that refer to
// a missing one stay pending. It does not wait for the scheduler.
func (p *Plugin) SetMicroservices(running map[string]Microservice) error {
	if !p.namespaces.microservices.want(running) {
		return nil
	}
	if err := p.scheduler.PushSBNotifications(p.namespaces.microservices.retire); err != nil {
		return fmt.Errorf("microservices: %w", err)
	}
	if err := p.scheduler.PushSBNotifications(p.namespaces.microservices.publish); err != nil {
		return fmt.Errorf("microservices: %w", err)
	}
	return nil
}

// want reports whether running differs from what was wanted before.
func (m *microservices) want(running map[string]Microservice) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.Equal(m.wanted, running) {
		return false
	}
	m.wanted = maps.Clone(running)
	return true
}

// retire returns notifications for the microservices that moved or ended.
func (m *microservices) retire() (changes []kvscheduler.Notification) {
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

// publish removes the retired microservices, and returns notifications for new ones. Changes since
// retire are left to the next call.
func (m *microservices) publish() (changes []kvscheduler.Notification) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := maps.Clone(m.known)
	maps.DeleteFunc(known, func(label string, _ Microservice) bool { return m.retired[label] })
	m.retired = nil
	if known == nil {
		known = map[string]Microservice{}
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

// present are the microservices that values may be in, by label.
func (m *microservices) present() map[string]Microservice {
	m.mu.Lock()
	defer m.mu.Unlock()
	present := maps.Clone(m.known)
	maps.DeleteFunc(present, func(label string, _ Microservice) bool { return m.retired[label] })
	return present
}

// path returns the file that stands for the network namespace of a microservice.
func (m *microservices) path(label string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	at, ok := m.known[label]
	if !ok {
		return "", goneError{fmt.Errorf("no microservice %q runs on this node", label)}
	}
	return at.NetNS, nil
}

// refs are references to the namespaces of all microservices.
func (m *microservices) refs() (refs []*linux_namespace.NetNamespace) {
	for _, label := range slices.Sorted(maps.Keys(m.present())) {
		refs = append(refs, &linux_namespace.NetNamespace{Type: linux_namespace.NetNamespace_MICROSERVICE, Reference: label})
	}
	return refs
}

// microserviceDependencies are those of a value in a network namespace.
func microserviceDependencies(ref *linux_namespace.NetNamespace) []kvscheduler.Dependency {
	if ref.GetType() != linux_namespace.NetNamespace_MICROSERVICE {
		return nil
	}
	return []kvscheduler.Dependency{{Label: "microservice-available", Key: models.LinuxMicroserviceKey(ref.GetReference())}}
}
