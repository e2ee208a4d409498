package fake

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	vpp_acl "github.com/contiv/contiv/api/ligato/vpp/acl"
	"github.com/contiv/contiv/internal/vswitch"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Packet is a packet as access lists and NAT see it. Without a protocol, no rule with a protocol
// matches it.
type Packet struct {
	Src, Dst netip.Addr
	Protocol uint8
	// Ports of TCP and UDP; ICMP has its type and code there.
	SrcPort, DstPort uint16
	TCPFlags         uint8
	// SrcMAC is checked by MAC-IP lists on the first interface; the zero address skips them.
	SrcMAC [6]byte
	// Slot selects the backend of a service, see vswitch.Slots.
	Slot int
}

// answer returns the addresses of a reply.
func (p Packet) answer() Packet {
	return Packet{Src: p.Dst, Dst: p.Src, Protocol: p.Protocol, SrcPort: p.DstPort, DstPort: p.SrcPort}
}

// connection returns the key of one direction of a connection.
func (p Packet) connection() Packet { return p.answer().answer() }

type session struct {
	iface  string
	opener Packet
}

type accessLists struct {
	lists    map[string]*vpp_acl.ACL // without interfaces
	bound    map[vswitch.ACLBinding]bool
	sessions map[session]bool
	// seen holds the opening packets of connections.
	seen map[Packet]bool
}

func newAccessLists() accessLists {
	return accessLists{map[string]*vpp_acl.ACL{}, map[vswitch.ACLBinding]bool{}, map[session]bool{}, map[Packet]bool{}}
}

func (a *accessLists) remove(name string) {
	delete(a.lists, name)
	maps.DeleteFunc(a.bound, func(b vswitch.ACLBinding, _ bool) bool { return b.ACL == name })
}

func (a *accessLists) forget(iface string) {
	maps.DeleteFunc(a.bound, func(b vswitch.ACLBinding, _ bool) bool { return b.Interface == iface })
	maps.DeleteFunc(a.sessions, func(s session, _ bool) bool { return s.iface == iface })
}

type acls struct{ v *VSwitch }

func (p acls) Create(ctx context.Context, acl *vpp_acl.ACL) error {
	return p.v.do(ctx, func(n *Node) error {
		if _, err := vswitch.ACLRules(acl); err != nil {
			return err
		}
		value := proto.CloneOf(acl)
		value.Interfaces = nil
		n.acl.lists[acl.GetName()] = value
		return nil
	})
}

func (p acls) Update(ctx context.Context, _, acl *vpp_acl.ACL) error { return p.Create(ctx, acl) }

func (p acls) Delete(ctx context.Context, acl *vpp_acl.ACL) error {
	return p.v.do(ctx, func(n *Node) error {
		n.acl.remove(acl.GetName())
		return nil
	})
}

func (p acls) List(ctx context.Context, _ []*vpp_acl.ACL) (found []*vpp_acl.ACL, err error) {
	err = p.v.do(ctx, func(n *Node) error {
		for _, name := range slices.Sorted(maps.Keys(n.acl.lists)) {
			acl := proto.CloneOf(n.acl.lists[name])
			var ingress, egress []string
			for b := range n.acl.bound {
				switch {
				case b.ACL != name:
				case b.Egress:
					egress = append(egress, b.Interface)
				default:
					ingress = append(ingress, b.Interface)
				}
			}
			slices.Sort(ingress)
			slices.Sort(egress)
			acl.Interfaces = &vpp_acl.ACL_Interfaces{Ingress: ingress, Egress: egress}
			found = append(found, acl)
		}
		return nil
	})
	return found, err
}

func (p acls) Bind(ctx context.Context, b vswitch.ACLBinding) error {
	return p.v.do(ctx, func(n *Node) error {
		if n.acl.lists[b.ACL] == nil {
			return fmt.Errorf("access list %q does not exist", b.ACL)
		}
		if _, err := n.iface(b.Interface); err != nil {
			return err
		}
		n.acl.bound[b] = true
		return nil
	})
}

func (p acls) Unbind(ctx context.Context, b vswitch.ACLBinding) error {
	return p.v.do(ctx, func(n *Node) error {
		delete(n.acl.bound, b)
		return nil
	})
}

func (n *Node) aclKeys(keys map[string]bool) {
	for name := range n.acl.lists {
		keys[models.ACL.KeyPrefix()+name] = true
	}
}

// Trace is TracePacket with a full packet. It records connections: the reply to a packet that a
// REFLECT rule permitted passes.
func (n *Node) Trace(from string, p Packet) Trace {
	n.net.mu.Lock()
	defer n.net.mu.Unlock()
	t := &tracer{Trace: Trace{Src: p.Src}, dst: p.Dst, packet: p}
	t.enter(n, from)
	t.Dst, t.DstPort = t.dst, t.packet.DstPort
	if conn := p.connection(); t.Verdict != Dropped && !n.acl.seen[p.answer()] {
		n.acl.seen[conn] = true
	}
	return t.Trace
}

func (t *tracer) passes(n *Node, iface string, egress bool) bool {
	packet := t.packet
	packet.Src, packet.Dst = t.Src, t.dst
	if !egress && packet.SrcMAC != [6]byte{} {
		if list, action := n.acl.decide(iface, false, true, packet); action == vpp_acl.ACL_Rule_DENY {
			t.drop(n, "MAC-IP list %s denies it on %s", list, iface)
			return false
		}
		t.packet.SrcMAC = [6]byte{}
	}
	if n.acl.sessions[session{iface, packet.answer()}] {
		t.hop(n, "%s lets answers pass", iface)
		return true
	}
	list, action := n.acl.decide(iface, egress, false, packet)
	if list != "" {
		t.hop(n, "%s: access list %s says %s", iface, list, action)
	}
	conn := packet.connection()
	if !n.acl.seen[packet.answer()] {
		if action == vpp_acl.ACL_Rule_REFLECT {
			n.acl.sessions[session{iface, conn}] = true
		} else {
			delete(n.acl.sessions, session{iface, conn})
		}
	}
	if action == vpp_acl.ACL_Rule_DENY {
		t.drop(n, "access list %s denies it on %s", list, iface)
		return false
	}
	return true
}

// decide returns the verdict of an interface's lists, and the deciding list.
func (a *accessLists) decide(iface string, egress, macip bool, p Packet) (list string, action vpp_acl.ACL_Rule_Action) {
	var names []string
	for b := range a.bound {
		if b.Interface == iface && b.Egress == egress && vswitch.IsMACIP(a.lists[b.ACL]) == macip {
			names = append(names, b.ACL)
		}
	}
	if len(names) == 0 {
		return "", vpp_acl.ACL_Rule_PERMIT
	}
	slices.Sort(names)
	for _, name := range names {
		rules, _ := vswitch.ACLRules(a.lists[name])
		for _, r := range rules {
			if matches(r, p) {
				return name, r.Action
			}
		}
	}
	return names[len(names)-1] + " (at its end)", vpp_acl.ACL_Rule_DENY
}

func matches(r vswitch.ACLRule, p Packet) bool {
	if !r.Src.Contains(p.Src) || !r.Dst.Contains(p.Dst) || !r.Protocol.Has(uint16(p.Protocol)) {
		return false
	}
	for i, bits := range r.MACMask {
		if p.SrcMAC[i]&bits != r.MAC[i] {
			return false
		}
	}
	if r.Protocol == vswitch.AnyProtocol {
		return true
	}
	return r.SrcPortsOrTypes.Has(p.SrcPort) && r.DstPortsOrCodes.Has(p.DstPort) && p.TCPFlags&r.TCPFlagsMask == r.TCPFlags
}
