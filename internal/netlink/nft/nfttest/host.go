package nfttest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Host is a Linux node: a kernel with addresses, routes and connections. Set its functions before
// sending packets.
type Host struct {
	Kernel *Kernel
	// Local reports whether an address is one of the host.
	Local func(netip.Addr) bool
	// Route returns the output device for an address, or "".
	Route func(netip.Addr) (device string)
	// Source returns the masquerade address of a device, of the same IP version as like. nil:
	// masquerading is an error.
	Source func(device string, like netip.Addr) netip.Addr
	// Random returns a number below n. NewHost sets it.
	Random func(n uint32) uint32

	connections map[flow]*connection
}

// NewHost returns a host with a new Kernel.
func NewHost() *Host {
	return &Host{Kernel: NewKernel(), Random: rand.Uint32N, connections: map[flow]*connection{}}
}

// Packet is a packet of a connection or an ICMP exchange. ICMP packets have their identifier as
// ports.
type Packet struct {
	In       string // input device; "": sent by the host
	Protocol byte   // unix.IPPROTO_TCP, …
	Src, Dst netip.AddrPort
	// Type of ICMP, e.g. echo request.
	Type byte
}

// Outcome is the fate of a packet.
type Outcome struct {
	// Passed: it reached the host or left by the device Out.
	Passed bool
	// Refused: the sender got an error.
	Refused bool
	// Src and Dst after translation.
	Src, Dst netip.AddrPort
	// Out is the output device; "": delivered to the host.
	Out string
	// By is the rule that dropped it: table, chain and comment.
	By string
	// Trace lists the rules with a verdict.
	Trace []string
}

// Answer returns the answer to a packet that left by the device Out.
func (o Outcome) Answer(sent Packet) Packet {
	answer := Packet{In: o.Out, Protocol: sent.Protocol, Src: o.Dst, Dst: o.Src, Type: sent.Type}
	switch {
	case sent.Protocol == unix.IPPROTO_ICMP && sent.Type == 8:
		answer.Type = 0
	case sent.Protocol == unix.IPPROTO_ICMPV6 && sent.Type == 128:
		answer.Type = 129
	}
	return answer
}

type flow struct {
	protocol byte
	src, dst netip.AddrPort
}

type connection struct {
	original, reply flow
	status          uint32
	mark            uint32
	replied         bool
	confirmed       bool
	// NAT rules were evaluated for the destination, and for the source
	destination, source bool
}

const statusSeenReply, statusAssured, statusSourceNAT, statusDestinationNAT = 1 << 1, 1 << 2, 1 << 4, 1 << 5

type packet struct {
	protocol  byte
	icmpType  byte
	src, dst  netip.AddrPort
	in, out   string
	mark      uint32
	untracked bool
	conn      *connection
	answers   bool // in the reply direction
}

// priorityConntrack is the priority of connection tracking. Before it, packets have no connection.
const priorityConntrack = -200

// Forget deletes all connections.
func (h *Host) Forget() { clear(h.connections) }

// Marks returns the marks of all connections.
func (h *Host) Marks() (marks []uint32) {
	for _, c := range h.connections {
		marks = append(marks, c.mark)
	}
	return marks
}

// ClearMarks clears the bits of the mask in the marks of the connections whose mark is stale.
func (h *Host) ClearMarks(mask uint32, stale func(mark uint32) bool) error {
	for _, c := range h.connections {
		if stale(c.mark) {
			c.mark &^= mask
		}
	}
	return nil
}

// Send traces a packet through the tables. It returns an error for an unsupported expression, or if
// the tables are inconsistent.
func (h *Host) Send(sent Packet) (Outcome, error) {
	h.Kernel.mu.Lock()
	defer h.Kernel.mu.Unlock()
	p := &packet{protocol: sent.Protocol, icmpType: sent.Type, src: sent.Src, dst: sent.Dst, in: sent.In}
	var trace []string
	end := func(o outcome, passed bool) Outcome {
		return Outcome{Passed: passed, Refused: o.refused, Src: p.src, Dst: p.dst, Out: p.out, By: o.by, Trace: trace}
	}
	hooks := []uint32{unix.NF_INET_PRE_ROUTING}
	if p.in == "" {
		p.out = h.Route(p.dst.Addr())
		hooks = []uint32{unix.NF_INET_LOCAL_OUT, unix.NF_INET_POST_ROUTING}
	}
	for len(hooks) > 0 {
		hook := hooks[0]
		hooks = hooks[1:]
		o, lines, err := h.hook(hook, p)
		trace = append(trace, lines...)
		if err != nil {
			return Outcome{}, err
		}
		if o.verdict == expr.VerdictDrop {
			return end(o, false), nil
		}
		switch {
		case hook == unix.NF_INET_PRE_ROUTING && h.Local(p.dst.Addr()):
			hooks = []uint32{unix.NF_INET_LOCAL_IN}
		case hook == unix.NF_INET_PRE_ROUTING:
			if p.out = h.Route(p.dst.Addr()); p.out == "" {
				return end(outcome{by: "no route"}, false), nil
			}
			hooks = []uint32{unix.NF_INET_FORWARD, unix.NF_INET_POST_ROUTING}
		case hook == unix.NF_INET_LOCAL_OUT:
			p.out = h.Route(p.dst.Addr()) // the destination may have changed
		}
	}
	p.confirm(h)
	return end(outcome{}, true), nil
}

// hook runs all chains of a hook, and connection tracking and NAT at their priorities.
func (h *Host) hook(number uint32, p *packet) (last outcome, trace []string, err error) {
	type call struct {
		priority int32
		order    int
		do       func() (outcome, error)
	}
	var calls []call
	enters := number == unix.NF_INET_PRE_ROUTING || number == unix.NF_INET_LOCAL_OUT
	leaves := number == unix.NF_INET_POST_ROUTING || number == unix.NF_INET_LOCAL_IN
	if enters {
		calls = append(calls, call{priority: priorityConntrack, do: func() (outcome, error) {
			p.track(h)
			return goesOn, nil
		}})
	}
	natPriority := map[bool]int32{true: -100, false: 100}[enters]
	var nat []func() (outcome, error)
	for _, t := range h.Kernel.sorted() {
		if !p.isOf(t.key.family) {
			continue
		}
		for _, name := range sortedNames(t.chains) {
			c := t.chains[name]
			if !c.hooked || c.hook != number {
				continue
			}
			do := func() (outcome, error) {
				w := walk{host: h, table: t, packet: p}
				o, err := w.run(c, 0)
				trace = append(trace, w.trace...)
				if err == nil && o.verdict == verdictContinue && c.policy == 0 {
					o = outcome{verdict: expr.VerdictDrop, by: fmt.Sprintf("%v %s: policy", t.key, c.name)}
				}
				return o, err
			}
			if c.typ == "nat" {
				nat = append(nat, do)
			} else {
				calls = append(calls, call{priority: c.priority, order: len(calls), do: do})
			}
		}
	}
	if enters || leaves {
		calls = append(calls, call{priority: natPriority, order: len(calls), do: func() (outcome, error) { return p.nat(enters, nat) }})
	}
	slices.SortStableFunc(calls, func(a, b call) int { return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.order, b.order)) })
	for _, c := range calls {
		o, err := c.do()
		if err != nil || o.verdict == expr.VerdictDrop {
			return o, trace, err
		}
	}
	return goesOn, trace, nil
}

func sortedNames(chains map[string]*chain) (names []string) {
	for name := range chains {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p *packet) isOf(family byte) bool {
	switch family {
	case unix.NFPROTO_INET:
		return true
	case unix.NFPROTO_IPV4:
		return p.src.Addr().Is4()
	case unix.NFPROTO_IPV6:
		return p.src.Addr().Is6()
	}
	return false
}

func (p *packet) track(h *Host) {
	if p.untracked {
		return
	}
	f := flow{p.protocol, p.src, p.dst}
	if known := h.connections[f]; known != nil {
		p.conn, p.answers = known, known.reply == f && known.original != f
		switch {
		case p.answers:
			known.replied = true
			known.status |= statusSeenReply
		case known.replied && p.protocol != unix.IPPROTO_UDP:
			known.status |= statusAssured // the client confirms the answer
		}
		return
	}
	p.conn = &connection{original: f, reply: flow{f.protocol, f.dst, f.src}}
}

// nat applies the NAT of the connection. For a new connection it first evaluates the rules: for the
// destination at the entry, for the source at the exit.
func (p *packet) nat(enters bool, rules []func() (outcome, error)) (outcome, error) {
	c := p.conn
	if c == nil {
		return goesOn, nil
	}
	asked := &c.source
	if enters {
		asked = &c.destination
	}
	if !c.confirmed && !p.answers && !*asked {
		*asked = true
		for _, ask := range rules {
			before := c.reply
			o, err := ask()
			if err != nil || o.verdict == expr.VerdictDrop {
				return o, err
			}
			if c.reply != before {
				break // the first translation wins
			}
		}
	}
	switch reply, original := c.reply, c.original; {
	case enters && !p.answers:
		p.dst = reply.src
	case enters:
		p.dst = original.src
	case !p.answers:
		p.src = reply.dst
	default:
		p.src = original.dst
	}
	return goesOn, nil
}

// translate sets the NAT of the connection's destination or source.
func (p *packet) translate(destination bool, addr netip.Addr, port *uint16) error {
	if p.conn == nil {
		return fmt.Errorf("NAT of a packet without a connection")
	}
	c := p.conn
	end, bit := &c.reply.dst, uint32(statusSourceNAT)
	if destination {
		end, bit = &c.reply.src, statusDestinationNAT
	}
	was := *end
	n := was.Port()
	if port != nil {
		n = *port
	}
	*end = netip.AddrPortFrom(addr, n)
	if *end != was {
		c.status |= bit
	}
	return nil
}

// confirm stores a connection whose first packet has passed.
func (p *packet) confirm(h *Host) {
	if c := p.conn; c != nil && !c.confirmed {
		c.confirmed = true
		h.connections[c.original], h.connections[c.reply] = c, c
	}
}

// payload returns a part of the packet's headers, or nil.
func (p *packet) payload(base expr.PayloadBase, offset, length int) []byte {
	var header []byte
	switch base {
	case expr.PayloadBaseNetworkHeader:
		header = p.networkHeader()
	case expr.PayloadBaseTransportHeader:
		header = p.transportHeader()
	}
	if offset+length > len(header) {
		return nil
	}
	return header[offset : offset+length]
}

func (p *packet) networkHeader() []byte {
	src, dst := p.src.Addr(), p.dst.Addr()
	if src.Is4() {
		h := make([]byte, 20)
		h[0], h[8], h[9] = 0x45, 64, p.protocol
		copy(h[12:], src.AsSlice())
		copy(h[16:], dst.AsSlice())
		return h
	}
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, p.protocol, 64
	copy(h[8:], src.AsSlice())
	copy(h[24:], dst.AsSlice())
	return h
}

func (p *packet) transportHeader() []byte {
	h := make([]byte, 20)
	switch p.protocol {
	case unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6:
		h[0] = p.icmpType
		binary.BigEndian.PutUint16(h[4:], p.src.Port())
	default:
		binary.BigEndian.PutUint16(h[0:], p.src.Port())
		binary.BigEndian.PutUint16(h[2:], p.dst.Port())
		h[12], h[13] = 0x50, 2 // SYN
	}
	return h
}

// Hardware types of linux/if_arp.h.
const arphrdEther, arphrdLoopback = 1, 772

const loopback = "lo"

func (w *walk) meta(key expr.MetaKey) ([]byte, error) {
	p := w.packet
	name := func(device string) []byte {
		padded := make([]byte, unix.IFNAMSIZ)
		copy(padded, device)
		return padded
	}
	kind := func(device string) []byte {
		n := uint16(arphrdEther)
		if device == "" || device == loopback {
			n = arphrdLoopback
		}
		return binary.NativeEndian.AppendUint16(nil, n)
	}
	const inputKind, outputKind, timeNow = 26, 27, 30 // NFT_META_IIFKIND, NFT_META_OIFKIND, NFT_META_TIME_NS
	switch key {
	case expr.MetaKeyNFPROTO:
		if p.src.Addr().Is6() {
			return []byte{unix.NFPROTO_IPV6}, nil
		}
		return []byte{unix.NFPROTO_IPV4}, nil
	case expr.MetaKeyL4PROTO:
		return []byte{p.protocol}, nil
	case expr.MetaKeyIIF: // one index for all devices: rules only check for zero
		if p.in == "" {
			return native32(0), nil
		}
		return native32(1), nil
	case expr.MetaKeyIIFNAME:
		return name(p.in), nil
	case expr.MetaKeyOIFNAME:
		return name(p.out), nil
	case expr.MetaKeyMARK:
		return native32(p.mark), nil
	case expr.MetaKeyIIFTYPE:
		return kind(p.in), nil
	case expr.MetaKeyOIFTYPE:
		return kind(p.out), nil
	case expr.MetaKeyIIFGROUP, expr.MetaKeyOIFGROUP:
		return native32(0), nil
	case timeNow:
		return binary.NativeEndian.AppendUint64(nil, uint64(w.host.Kernel.passed)), nil
	case inputKind, outputKind:
		return name(""), nil
	}
	return nil, fmt.Errorf("nfttest knows no meta %d", key)
}

// Conntrack keys that the library does not define.
const (
	keySourceIP, keyDestinationIP   = 19, 20
	keySourceIP6, keyDestinationIP6 = 21, 22
)

func (w *walk) ct(e ctWord) (outcome, error) {
	c := w.packet.conn
	if e.stores {
		if e.key != unix.NFT_CT_MARK {
			return outcome{}, fmt.Errorf("nfttest cannot set ct %d", e.key)
		}
		if c != nil {
			c.mark = binary.NativeEndian.Uint32(w.regs.get(e.register, 4))
		}
		return goesOn, nil
	}
	if e.key == unix.NFT_CT_STATE {
		return w.load(e.register, native32(w.packet.state()))
	}
	if c == nil {
		return matches(false)
	}
	f := c.original
	if e.direction == 1 {
		f = c.reply
	}
	addr := func(a netip.Addr, v6 bool) []byte {
		if a.Is6() != v6 {
			return nil
		}
		return a.AsSlice()
	}
	port := func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
	var data []byte
	switch e.key {
	case unix.NFT_CT_DIRECTION:
		data = []byte{0}
		if w.packet.answers {
			data = []byte{1}
		}
	case unix.NFT_CT_STATUS:
		data = native32(c.status)
	case unix.NFT_CT_MARK:
		data = native32(c.mark)
	case unix.NFT_CT_PROTO_SRC:
		data = port(f.src.Port())
	case unix.NFT_CT_PROTO_DST:
		data = port(f.dst.Port())
	case keySourceIP, keySourceIP6:
		data = addr(f.src.Addr(), e.key == keySourceIP6)
	case keyDestinationIP, keyDestinationIP6:
		data = addr(f.dst.Addr(), e.key == keyDestinationIP6)
	default:
		return outcome{}, fmt.Errorf("nfttest knows no ct %d", e.key)
	}
	return w.load(e.register, data)
}

func (p *packet) state() uint32 {
	const invalid, untracked = 1, 64
	switch {
	case p.untracked:
		return untracked
	case p.conn == nil:
		return invalid
	case p.conn.replied:
		return expr.CtStateBitESTABLISHED
	}
	return expr.CtStateBitNEW
}

func (w *walk) fib(e *expr.Fib) (outcome, error) {
	if !e.ResultADDRTYPE || e.FlagSADDR == e.FlagDADDR {
		return outcome{}, fmt.Errorf("nfttest knows only the type of an address of fib")
	}
	addr := w.packet.src.Addr()
	if e.FlagDADDR {
		addr = w.packet.dst.Addr()
	}
	typ := uint32(unix.RTN_UNICAST)
	if w.host.Local(addr) {
		typ = unix.RTN_LOCAL
	}
	return w.load(e.Register, native32(typ))
}

func (w *walk) nat(e *expr.NAT) (outcome, error) {
	length := 4
	if e.Family == unix.NFPROTO_IPV6 {
		length = 16
	}
	addr, ok := netip.AddrFromSlice(w.regs.get(e.RegAddrMin, length))
	if !ok {
		return outcome{}, fmt.Errorf("no address to translate to")
	}
	var port *uint16
	if e.RegProtoMin != 0 {
		port = new(binary.BigEndian.Uint16(w.regs.get(e.RegProtoMin, 2)))
	}
	return outcome{verdict: expr.VerdictAccept}, w.packet.translate(e.Type == expr.NATTypeDestNAT, addr, port)
}
