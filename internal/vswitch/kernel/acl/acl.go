package acl

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/contiv/contiv/kvscheduler"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"google.golang.org/protobuf/proto"
)

type acls struct{ *Driver }

// AccessLists returns the port for access lists.
func (v *Driver) AccessLists() vswitch.ACLs { return acls{v} }

// Prefixes of the chains of lists and interfaces, followed by a name written by aclName.
const (
	chainRules = "rules/" // followed by the list's name and a hash
	chainACL   = "acl/"
	chainMACIP = "macip/"
	chainOfIn  = "in/"
	chainOfOut = "out/"
	chainOfMAC = "mac/"
)

// aclPort is an attachment point of lists: one kind and direction.
type aclPort struct{ mapName, chains, lists string }

var (
	portIn  = aclPort{"ingress", chainOfIn, chainACL}
	portOut = aclPort{"egress", chainOfOut, chainACL}
	portMAC = aclPort{"macip", chainOfMAC, chainMACIP}
)

var aclPorts = []aclPort{portIn, portOut, portMAC}

// opposite returns the attachment point of the other direction, which reflecting lists need, and
// its chain for the same interface.
func (p aclPort) opposite(chain string) (o aclPort, of string, ok bool) {
	switch p {
	case portIn:
		o = portOut
	case portOut:
		o = portIn
	default:
		return o, "", false
	}
	return o, o.chains + strings.TrimPrefix(chain, p.chains), true
}

// lines returns the rules of an interface's chain with the lists, given by chain. It accepts
// replies only while a list may have permitted their connection, because connection marks outlive
// lists.
func (s aclState) lines(p aclPort, chain string, lists []string) (lines []aclLine) {
	if _, other, ok := p.opposite(chain); ok {
		exempt := "always"
		if len(s.listsOf(other)) > 0 {
			exempt = "answers-" + strings.TrimSuffix(p.chains, "/")
		}
		lines = append(lines, aclLine{"jump " + exempt, exempt})
	}
	for _, list := range lists {
		lines = append(lines, aclLine{"jump " + list, list})
	}
	end := "goto deny"
	if p == portMAC {
		end = "drop"
	}
	return append(lines, aclLine{"meta protocol ip " + end, "end"}, aclLine{"meta protocol ip6 " + end, "end"})
}

// listsOf returns the lists in an interface's chain, sorted by name.
func (s aclState) listsOf(chain string) []string {
	var lists []string
	for _, table := range s {
		for _, comment := range table.chains[chain] {
			if strings.HasPrefix(comment, chainACL) || strings.HasPrefix(comment, chainMACIP) {
				lists = append(lists, comment)
			}
		}
	}
	return inOrder(lists)
}

func inOrder(lists []string) []string {
	slices.SortFunc(lists, func(a, b string) int {
		nameA, _ := parseACLName(a[strings.Index(a, "/")+1:])
		nameB, _ := parseACLName(b[strings.Index(b, "/")+1:])
		return strings.Compare(nameA, nameB)
	})
	return slices.Compact(lists)
}

func (s aclState) everywhere(chain string, comments []string) bool {
	for _, table := range s {
		if found, ok := table.chains[chain]; !ok || !table.intact || !slices.Equal(found, comments) {
			return false
		}
	}
	return true
}

func (s aclState) isList(chain string, lines []aclLine) bool {
	content := contentChain(chain, lines)
	return s.everywhere(chain, []string{content}) && s.everywhere(content, commentsOf(lines))
}

func (s aclState) leads(mapName, device, chain string) bool {
	for _, table := range s {
		if table.maps[mapName][device] != chain {
			return false
		}
	}
	return true
}

func (s aclState) listChain(name string) string {
	for _, prefix := range []string{chainACL, chainMACIP} {
		for _, table := range s {
			if _, ok := table.chains[prefix+aclName(name)]; ok {
				return prefix + aclName(name)
			}
		}
	}
	return ""
}

func chainOf(acl *vpp_acl.ACL) string {
	if vswitch.IsMACIP(acl) {
		return chainMACIP + aclName(acl.GetName())
	}
	return chainACL + aclName(acl.GetName())
}

// contentChain names the chain with the rules of a list; the list's own chain jumps to it.
func contentChain(list string, lines []aclLine) string {
	return contentPrefix(list) + hashed(strings.Join(commentsOf(lines), "\n")).comment
}

func contentPrefix(list string) string { return chainRules + list[strings.Index(list, "/")+1:] + "/" }

// fitsChain checks the length, because comments contain list names.
func fitsChain(kind, name string) error {
	if len(aclName(name)) > 100 {
		return vswitch.Unsupported("%s %q: write its name with letters, digits, - and . only, or shorter", kind, name)
	}
	return nil
}

func (v acls) Create(ctx context.Context, acl *vpp_acl.ACL) error {
	err := fitsChain("access list", acl.GetName())
	var rules []vswitch.ACLRule
	if err == nil {
		rules, err = vswitch.ACLRules(acl)
	}
	if err == nil {
		lines := compileACL(rules, vswitch.IsMACIP(acl))
		err = v.changeACLs(func(e *aclEdit) error {
			e.base()
			if old := e.state.listChain(acl.GetName()); old != "" && old != chainOf(acl) {
				e.removeList(old)
			}
			return e.setList(chainOf(acl), lines)
		})
	}
	if err != nil {
		return fmt.Errorf("setting the rules of access list %q: %w", acl.GetName(), err)
	}
	v.Reg.Put(acl)
	return nil
}

func (v acls) Update(ctx context.Context, _, acl *vpp_acl.ACL) error { return v.Create(ctx, acl) }

// Delete removes the list, and the tables with the last one.
func (v acls) Delete(ctx context.Context, acl *vpp_acl.ACL) error {
	err := v.changeACLs(func(e *aclEdit) error {
		chain := e.state.listChain(acl.GetName())
		if chain == "" {
			return nil
		}
		if e.state.onlyList(chain) {
			e.dropTables()
		} else {
			e.removeList(chain)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("deleting access list %q: %w", acl.GetName(), err)
	}
	v.Reg.Remove(acl)
	return nil
}

func (e *aclEdit) removeList(chain string) {
	for _, p := range aclPorts {
		for _, port := range e.state.chainsOf(p.chains) {
			if lists := e.state.listsOf(port); slices.Contains(lists, chain) {
				e.bind(p, port, "", slices.DeleteFunc(lists, func(l string) bool { return l == chain }))
			}
		}
	}
	e.dropLater(chain)
	for _, content := range e.state.chainsOf(contentPrefix(chain)) {
		e.dropLater(content)
	}
}

// bind attaches exactly the lists to an interface. Without lists, it deletes the interface's chain.
// With lists but without a device, it keeps the map entry of the chain.
func (e *aclEdit) bind(p aclPort, port, device string, lists []string) {
	if len(lists) == 0 {
		e.direct(p.mapName, "", port)
		e.drop(port)
	} else {
		e.set(port, e.state.lines(p, port, lists))
		if device != "" {
			e.direct(p.mapName, device, port)
		}
	}
	if o, other, ok := p.opposite(port); ok {
		if lists := e.state.listsOf(other); len(lists) > 0 {
			e.set(other, e.state.lines(o, other, lists))
		}
	}
}

func (s aclState) onlyList(chain string) bool {
	lists := append(s.chainsOf(chainACL), s.chainsOf(chainMACIP)...)
	return len(lists) == 1 && lists[0] == chain
}

func (s aclState) chainsOf(prefix string) []string {
	names := map[string]bool{}
	for _, table := range s {
		for name := range table.chains {
			if strings.HasPrefix(name, prefix) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func (v acls) Bind(ctx context.Context, b vswitch.ACLBinding) error {
	err := fitsChain("interface", b.Interface)
	if err == nil {
		err = v.bind(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("putting access list %q on interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

func (v acls) bind(ctx context.Context, b vswitch.ACLBinding) error {
	link, err := v.Link(b.Interface)
	if err != nil {
		return err
	}
	return v.changeACLs(func(e *aclEdit) error {
		list := e.state.listChain(b.ACL)
		if list == "" {
			return fmt.Errorf("access list %q not found", b.ACL)
		}
		e.base()
		p := portOf(list, b.Egress)
		port := p.chains + aclName(b.Interface)
		e.bind(p, port, link.Attrs().Name, inOrder(append(e.state.listsOf(port), list)))
		return nil
	})
}

func portOf(list string, egress bool) aclPort {
	switch {
	case strings.HasPrefix(list, chainMACIP):
		return portMAC
	case egress:
		return portOut
	}
	return portIn
}

func (v acls) Unbind(ctx context.Context, b vswitch.ACLBinding) error {
	err := v.changeACLs(func(e *aclEdit) error {
		list := e.state.listChain(b.ACL)
		if list == "" {
			return nil
		}
		p := portOf(list, b.Egress)
		port := p.chains + aclName(b.Interface)
		if lists := e.state.listsOf(port); slices.Contains(lists, list) {
			e.bind(p, port, "", slices.DeleteFunc(lists, func(l string) bool { return l == list }))
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("taking access list %q off interface %q: %w", b.ACL, b.Interface, err)
	}
	return nil
}

// List recognises rules by their comments. It returns a list that differs from the expected one
// with an invalid rule.
func (v acls) List(ctx context.Context, expected []*vpp_acl.ACL) ([]*vpp_acl.ACL, error) {
	var list []*vpp_acl.ACL
	err := v.NFT.Locked(func() error {
		state, err := v.aclState()
		if err == nil {
			list = v.list(state, expected)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	own.Settle(v.Reg, expected, list)
	return list, nil
}

func (v acls) list(state aclState, expected []*vpp_acl.ACL) (list []*vpp_acl.ACL) {
	wanted := make(map[string]*vpp_acl.ACL, len(expected))
	for _, acl := range expected {
		wanted[acl.GetName()] = acl
	}
	bound := v.boundInterfaces(state)
	for _, chain := range append(state.chainsOf(chainACL), state.chainsOf(chainMACIP)...) {
		name, err := parseACLName(chain[strings.Index(chain, "/")+1:])
		if err != nil {
			continue
		}
		found := &vpp_acl.ACL{Name: name, Rules: []*vpp_acl.ACL_Rule{{}}}
		if want := wanted[name]; want != nil && chainOf(want) == chain {
			if rules, err := vswitch.ACLRules(want); err == nil && state.isList(chain, compileACL(rules, vswitch.IsMACIP(want))) {
				found.Rules = proto.CloneOf(want).GetRules()
			}
		}
		found.Interfaces = bound[chain]
		list = append(list, found)
	}
	return list
}

func (v acls) boundInterfaces(state aclState) map[string]*vpp_acl.ACL_Interfaces {
	bound := map[string]*vpp_acl.ACL_Interfaces{}
	for _, p := range aclPorts {
		for _, port := range state.chainsOf(p.chains) {
			name, err := parseACLName(port[len(p.chains):])
			if err != nil {
				continue
			}
			lists := state.listsOf(port)
			device, _, ok := v.Device(name)
			if !ok || !state.leads(p.mapName, device, port) || !state.everywhere(port, commentsOf(state.lines(p, port, lists))) {
				continue
			}
			for _, list := range lists {
				if bound[list] == nil {
					bound[list] = &vpp_acl.ACL_Interfaces{}
				}
				if p == portOut {
					bound[list].Egress = append(bound[list].Egress, name)
				} else {
					bound[list].Ingress = append(bound[list].Ingress, name)
				}
			}
		}
	}
	return bound
}

// Drop removes the tables.
func (v *Driver) Drop(ctx context.Context) error {
	err := v.changeACLs(func(e *aclEdit) error {
		e.dropTables()
		return nil
	})
	if errors.Is(err, kvscheduler.ErrUnsupported) {
		return nil
	}
	return err
}
