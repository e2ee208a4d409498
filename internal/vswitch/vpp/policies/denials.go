package policies

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/vswitch/policyrules"
)

// Capture shows packets that VPP drops.
type Capture interface {
	// Start starts the bounded capture unless it runs.
	Start(ctx context.Context) error
	// Stop ends it and returns its frames.
	Stop(ctx context.Context) ([][]byte, error)
}

// denial is the subject that a denying rule counts for.
type denial struct {
	rule int // its place in the list
	policyrules.DeniedSubject
}

// counts holds the numbers of denied packets.
type counts struct {
	// denials maps lists to their denying rules.
	denials map[string][]denial
	// before holds the counts of replaced lists, by subjects without packets.
	before map[policyrules.DeniedSubject]uint64
	// reported is the last reported sum.
	reported uint64
}

func newCounts() counts {
	return counts{denials: map[string][]denial{}, before: map[policyrules.DeniedSubject]uint64{}}
}

// of returns the packets that a list has denied.
func (c *counts) of(list string, matched func() map[string][]uint64) map[policyrules.DeniedSubject]uint64 {
	if len(c.denials[list]) == 0 {
		return nil
	}
	packets, sums := matched()[list], map[policyrules.DeniedSubject]uint64{}
	for _, d := range c.denials[list] {
		if d.rule < len(packets) && packets[d.rule] > 0 {
			sums[d.DeniedSubject] += packets[d.rule]
		}
	}
	return sums
}

// replaced handles a new list, which counts from zero.
func (c *counts) replaced(list string, counted map[policyrules.DeniedSubject]uint64, denials []denial) {
	for subject, packets := range counted {
		c.before[subject] += packets
	}
	c.set(list, denials)
}

// set sets the denying rules of a list; lists without any are omitted.
func (c *counts) set(list string, denials []denial) {
	delete(c.denials, list)
	if len(denials) > 0 {
		c.denials[list] = denials
	}
}

// forget removes deleted lists and subjects without addresses.
func (c *counts) forget(want *values, lists []string) {
	for _, list := range lists {
		delete(c.denials, list)
	}
	own := want.subjectAddresses()
	maps.DeleteFunc(c.before, func(s policyrules.DeniedSubject, _ uint64) bool { return !own[s.Address] })
}

// matched reads the rules' counts on first use. If that fails, the counts of replaced lists are
// lost.
func (d *Driver) matched(ctx context.Context) func() map[string][]uint64 {
	return sync.OnceValue(func() map[string][]uint64 {
		packets, err := d.acls.PolicyMatches(ctx)
		if err != nil {
			return nil
		}
		return packets
	})
}

// Denials returns the denied packets. Flows come from packets captured since the first call with
// live.
func (d *Driver) Denials(ctx context.Context, live bool) (r policyrules.Denials, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.want.subjects) == 0 {
		_, err := d.capture.Stop(ctx)
		return r, err
	}
	packets, err := d.acls.PolicyMatches(ctx)
	if err != nil {
		return r, err
	}
	sums := maps.Clone(d.denied.before)
	for list := range d.denied.denials {
		for subject, n := range d.denied.of(list, func() map[string][]uint64 { return packets }) {
			sums[subject] += n
		}
	}
	reported := uint64(0)
	for subject, n := range sums {
		reported += n
		subject.Packets = n
		r.Subjects = append(r.Subjects, subject)
	}
	more := reported != d.denied.reported
	d.denied.reported = reported
	if r.Flows, err = d.flows(ctx, live, more); err != nil {
		r.NoFlows = err.Error()
	}
	return r, nil
}

// flows returns the recent flows. The capture continues while clients ask, and is read only if the
// counts grew.
func (d *Driver) flows(ctx context.Context, live, more bool) ([]policyrules.DeniedFlow, error) {
	if more || !live {
		frames, err := d.capture.Stop(ctx)
		if err != nil {
			return nil, err
		}
		d.recent.add(d.flowsOf(frames), time.Now())
	}
	if live {
		if err := d.capture.Start(ctx); err != nil {
			return nil, err
		}
	}
	return d.recent.list(time.Now()), nil
}

// flowKept is how long a flow is reported after its last packet.
const flowKept = 30 * time.Second

// recent holds recently denied flows without packet counts. The capture bounds them.
type recent map[policyrules.DeniedFlow]*seen

type seen struct {
	packets uint64
	last    time.Time
}

func (r *recent) add(flows []policyrules.DeniedFlow, now time.Time) {
	if *r == nil {
		*r = recent{}
	}
	for _, f := range flows {
		if (*r)[f] == nil {
			(*r)[f] = &seen{}
		}
		(*r)[f].packets++
		(*r)[f].last = now
	}
}

func (r recent) list(now time.Time) (list []policyrules.DeniedFlow) {
	for f, s := range r {
		if now.Sub(s.last) > flowKept {
			delete(r, f)
			continue
		}
		f.Packets = s.packets
		list = append(list, f)
	}
	return list
}

// Nodes of VPP's graph with ACLs, and their error counters.
var (
	enterNodes = []string{"acl-plugin-in-ip4-fa", "acl-plugin-in-ip6-fa"}
	leaveNodes = []string{"acl-plugin-out-ip4-fa", "acl-plugin-out-ip6-fa"}
)

const denied = "ACL deny packets"

// flowsOf returns the denied connection attempts, one per captured packet.
func (d *Driver) flowsOf(frames [][]byte) (list []policyrules.DeniedFlow) {
	own := d.want.subjectAddresses()
	for _, frame := range frames {
		packet, enters := droppedBy(frame, denied, enterNodes...)
		leaves := false
		if !enters {
			packet, leaves = droppedBy(frame, denied, leaveNodes...)
		}
		flow, opens := opening(packet)
		if !opens || !(enters && own[flow.Src] || leaves && own[flow.Dst]) {
			continue
		}
		list = append(list, flow)
	}
	return list
}

// droppedBy separates a frame from VPP's appended text, if that names one of the nodes and the
// reason.
func droppedBy(frame []byte, reason string, nodes ...string) (packet []byte, ok bool) {
	for _, node := range nodes {
		if packet, ok = bytes.CutSuffix(frame, []byte(node+": "+reason)); ok {
			return packet, true
		}
	}
	return frame, false
}

// Header fields of Ethernet and IP.
const (
	ethernetHeader = 14
	typeIPv4       = 0x0800
	typeIPv6       = 0x86dd
	ipv6Header     = 40
)

// opening returns the connection of which a frame is the first packet; false if it is not.
func opening(frame []byte) (flow policyrules.DeniedFlow, ok bool) {
	if len(frame) < ethernetHeader {
		return flow, false
	}
	packet, rest := frame[ethernetHeader:], []byte(nil)
	switch binary.BigEndian.Uint16(frame[ethernetHeader-2:]) {
	case typeIPv4:
		if len(packet) < 20 || packet[0]>>4 != 4 {
			return flow, false
		}
		if size := int(packet[0]&15) * 4; size >= 20 && size <= len(packet) && binary.BigEndian.Uint16(packet[6:])&0x1fff == 0 {
			rest = packet[size:]
		}
		flow.Src, flow.Dst, flow.Protocol = netip.AddrFrom4([4]byte(packet[12:])), netip.AddrFrom4([4]byte(packet[16:])), packet[9]
	case typeIPv6:
		if len(packet) < ipv6Header || packet[0]>>4 != 6 {
			return flow, false
		}
		flow.Src, flow.Dst, flow.Protocol, rest = netip.AddrFrom16([16]byte(packet[8:])), netip.AddrFrom16([16]byte(packet[24:])), packet[6], packet[ipv6Header:]
	default:
		return flow, false
	}
	switch flow.Protocol {
	case policyrules.TCP:
		if len(rest) < 14 || rest[13]&(flagSYN|flagACK) != flagSYN {
			return flow, false
		}
		flow.Port = binary.BigEndian.Uint16(rest[2:])
	case policyrules.UDP, policyrules.SCTP:
		if len(rest) < 8 {
			return flow, false
		}
		flow.Port = binary.BigEndian.Uint16(rest[2:])
	}
	return flow, true
}
