package policies

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"net/netip"
	"sync"
	"time"

	"github.com/contiv/contiv/filter"
)

// Capture shows packets that VPP drops.
type Capture interface {
	// Start turns it on, unless it is on. It is bounded.
	Start(ctx context.Context) error
	// Stop turns it off, and returns the frames that there were.
	Stop(ctx context.Context) ([][]byte, error)
}

// denial is what a rule that denies counts.
type denial struct {
	rule int // its place in the list
	filter.DeniedSubject
}

// counts are packets that lists have denied.
type counts struct {
	// denials are those of VPP's lists, by the names of the lists.
	denials map[string][]denial
	// before is what lists had counted that were replaced, by subjects without packets.
	before map[filter.DeniedSubject]uint64
	// told is the sum of packets told last.
	told uint64
}

func newCounts() counts {
	return counts{denials: map[string][]denial{}, before: map[filter.DeniedSubject]uint64{}}
}

// of are the packets that a list has denied.
func (c *counts) of(list string, matched func() map[string][]uint64) map[filter.DeniedSubject]uint64 {
	if len(c.denials[list]) == 0 {
		return nil
	}
	packets, sums := matched()[list], map[filter.DeniedSubject]uint64{}
	for _, d := range c.denials[list] {
		if d.rule < len(packets) && packets[d.rule] > 0 {
			sums[d.DeniedSubject] += packets[d.rule]
		}
	}
	return sums
}

// replaced is what follows when a list is there anew and counts from zero.
func (c *counts) replaced(list string, counted map[filter.DeniedSubject]uint64, denials []denial) {
	for subject, packets := range counted {
		c.before[subject] += packets
	}
	c.set(list, denials)
}

// set is what denies in a list, of which there are many where nothing does.
func (c *counts) set(list string, denials []denial) {
	delete(c.denials, list)
	if len(denials) > 0 {
		c.denials[list] = denials
	}
}

// forget forgets lists that are gone, and subjects with addresses that nobody has any more.
func (c *counts) forget(want *values, lists []string) {
	for _, list := range lists {
		delete(c.denials, list)
	}
	own := want.subjectAddresses()
	maps.DeleteFunc(c.before, func(s filter.DeniedSubject, _ uint64) bool { return !own[s.Address] })
}

// matched reads what rules have counted when it is first needed. Without it, lists that
// are replaced are not counted.
func (d *Driver) matched(ctx context.Context) func() map[string][]uint64 {
	return sync.OnceValue(func() map[string][]uint64 {
		packets, err := d.acls.PolicyMatches(ctx)
		if err != nil {
			return nil
		}
		return packets
	})
}

// Denials tells what was denied. Flows are those of packets captured while live: from the first such call on.
func (d *Driver) Denials(ctx context.Context, live bool) (r filter.Denials, err error) {
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
	told := uint64(0)
	for subject, n := range sums {
		told += n
		subject.Packets = n
		r.Subjects = append(r.Subjects, subject)
	}
	more := told != d.denied.told
	d.denied.told = told
	if r.Flows, err = d.flows(ctx, live, more); err != nil {
		r.NoFlows = err.Error()
	}
	return r, nil
}

// flows are the recent ones. The capture goes on while somebody looks, and is only read if there was more.
func (d *Driver) flows(ctx context.Context, live, more bool) ([]filter.DeniedFlow, error) {
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

// flowKept is how long a flow is told after its last packet.
const flowKept = 30 * time.Second

// recent are flows, without packets, that were denied not long ago. What is captured bounds them.
type recent map[filter.DeniedFlow]*seen

type seen struct {
	packets uint64
	last    time.Time
}

func (r *recent) add(flows []filter.DeniedFlow, now time.Time) {
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

func (r recent) list(now time.Time) (list []filter.DeniedFlow) {
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

// Nodes of VPP's graph where lists deny, and what they count it as.
var (
	enterNodes = []string{"acl-plugin-in-ip4-fa", "acl-plugin-in-ip6-fa"}
	leaveNodes = []string{"acl-plugin-out-ip4-fa", "acl-plugin-out-ip6-fa"}
)

const denied = "ACL deny packets"

// flowsOf are the connections that were to be opened, one for each packet that lists of subjects denied.
func (d *Driver) flowsOf(frames [][]byte) (list []filter.DeniedFlow) {
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

// droppedBy splits a frame from what VPP appended, if that is about one of some nodes and a reason.
func droppedBy(frame []byte, reason string, nodes ...string) (packet []byte, ok bool) {
	for _, node := range nodes {
		if packet, ok = bytes.CutSuffix(frame, []byte(node+": "+reason)); ok {
			return packet, true
		}
	}
	return frame, false
}

// Ethernet and IP, as far as they matter here.
const (
	ethernetHeader = 14
	typeIPv4       = 0x0800
	typeIPv6       = 0x86dd
	ipv6Header     = 40
)

// opening is the connection that a frame is the first packet of; false: it is none.
func opening(frame []byte) (flow filter.DeniedFlow, ok bool) {
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
	case filter.TCP:
		if len(rest) < 14 || rest[13]&(flagSYN|flagACK) != flagSYN {
			return flow, false
		}
		flow.Port = binary.BigEndian.Uint16(rest[2:])
	case filter.UDP, filter.SCTP:
		if len(rest) < 8 {
			return flow, false
		}
		flow.Port = binary.BigEndian.Uint16(rest[2:])
	}
	return flow, true
}
