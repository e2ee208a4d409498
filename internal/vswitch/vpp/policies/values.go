package policies

import (
	"maps"
	"net/netip"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// values are the configured values. all contains them by northbound key; nil marks a removed value.
type values struct {
	all       map[string]proto.Message
	addresses map[string][]netip.Addr
	endpoints map[string]*contiv_filter.EndpointSet
	lists     map[string]*contiv_filter.AccessList
	subjects  map[string]*contiv_filter.Subject
}

func newValues() *values {
	return &values{map[string]proto.Message{}, map[string][]netip.Addr{}, map[string]*contiv_filter.EndpointSet{}, map[string]*contiv_filter.AccessList{}, map[string]*contiv_filter.Subject{}}
}

func (w *values) clone() *values {
	return &values{maps.Clone(w.all), maps.Clone(w.addresses), maps.Clone(w.endpoints), maps.Clone(w.lists), maps.Clone(w.subjects)}
}

func (w *values) set(m proto.Message) {
	w.all[models.Key(m)] = m
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		w.addresses[v.GetName()] = policyrules.ParseAddrs(v.GetAddresses())
	case *contiv_filter.EndpointSet:
		w.endpoints[v.GetName()] = v
	case *contiv_filter.AccessList:
		w.lists[v.GetName()] = v
	case *contiv_filter.Subject:
		w.subjects[v.GetName()] = v
	}
}

func (w *values) remove(m proto.Message) {
	w.all[models.Key(m)] = nil
	switch v := m.(type) {
	case *contiv_filter.AddressSet:
		delete(w.addresses, v.GetName())
	case *contiv_filter.EndpointSet:
		delete(w.endpoints, v.GetName())
	case *contiv_filter.AccessList:
		delete(w.lists, v.GetName())
	case *contiv_filter.Subject:
		delete(w.subjects, v.GetName())
	}
}

// subjectAddresses returns the addresses of all subjects.
func (w *values) subjectAddresses() map[netip.Addr]bool {
	own := map[netip.Addr]bool{}
	for _, s := range w.subjects {
		for _, addr := range policyrules.ParseAddrs(s.GetAddresses()) {
			own[addr] = true
		}
	}
	return own
}

// concerned reports whether a subject's rules may depend on one of the changed keys.
func (w *values) concerned(s *contiv_filter.Subject, changed map[string]bool) bool {
	if changed[models.Key(s)] {
		return true
	}
	for _, stages := range [][]*contiv_filter.Subject_Stage{s.GetIngress(), s.GetEgress()} {
		for _, stage := range stages {
			for _, name := range stage.GetLists() {
				if changed[models.Key(&contiv_filter.AccessList{Name: name})] || w.listConcerned(w.lists[name], changed) {
					return true
				}
			}
		}
	}
	return false
}

func (w *values) listConcerned(list *contiv_filter.AccessList, changed map[string]bool) bool {
	for _, r := range list.GetRules() {
		for _, set := range r.GetAddressSets() {
			if changed[models.Key(&contiv_filter.AddressSet{Name: set})] {
				return true
			}
		}
		for _, set := range r.GetEndpointSets() {
			if changed[models.Key(&contiv_filter.EndpointSet{Name: set})] {
				return true
			}
		}
	}
	return false
}
