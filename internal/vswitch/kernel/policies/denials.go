package policies

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Denied packets are counted by subject, direction and cause, and recorded with addresses and port
// in sets that packets fill:
//
//	denied-in, denied-out      a rule denied it       ┌─> @denied-in4, …    subject, counter
//	isolated-in, isolated-out  no rule allowed it ────┤
//	                                                  └─> flows: rate limit ──> @flows4, @others4, …
//
// Set sizes bound memory, and rate limits bound the readers' work. Allowed packets need no lookup.
const (
	// subjectsNoted bounds the subjects of a node. subjectKept is how long the counter of a subject
	// without new denials stays.
	subjectsNoted = 4096
	subjectKept   = "1h"
	// flowsNoted exceeds the flows that flowRate permits during flowKept from each of the four
	// chains.
	flowsNoted = 8192
	flowRate   = "limit rate 50/second burst 100 packets"
	flowKept   = "30s"
)

// deniedChains end with a drop; the value is the conntrack direction of the subject.
var deniedChains = map[string]string{"denied-in": "reply", "denied-out": "original", "isolated-in": "reply", "isolated-out": "original"}

// noteSets are filled by packets.
var noteSets = func() map[string]*nftables.Set {
	sets := map[string]*nftables.Set{}
	add := func(name string, size uint32, types ...nftables.SetDatatype) {
		s := &nftables.Set{Name: name, KeyType: types[0], Dynamic: true, HasTimeout: true, Size: size}
		if len(types) > 1 {
			s.KeyType, s.Concatenation = nftables.MustConcatSetType(types...), true
		}
		sets[name] = s
	}
	for version, addr := range addressType {
		for chain := range deniedChains {
			add(chain+version, subjectsNoted, addr)
		}
		add("flows"+version, flowsNoted, addr, addr, nftables.TypeInetProto, nftables.TypeInetService)
		add("others"+version, flowsNoted, addr, addr, nftables.TypeInetProto)
	}
	return sets
}()

// deniedLines count, record and drop a packet, and clear the mark of its connection, because
// generation numbers recur.
func deniedLines(chain string) []line {
	texts := []string{fmt.Sprintf("ct mark set ct mark & %#08x", ^uint32(markMask))}
	for _, v := range versions {
		texts = append(texts, fmt.Sprintf("update @%s%s { ct %s %s saddr timeout %s counter }", chain, v.number, deniedChains[chain], v.addr, subjectKept))
	}
	return lines(append(texts, flowRate+" jump flows", "drop")...)
}

func flowLines() []line {
	var texts []string
	for _, v := range versions {
		key := fmt.Sprintf("ct original %s saddr . ct reply %s saddr . meta l4proto", v.addr, v.addr)
		texts = append(texts,
			fmt.Sprintf("ct direction original meta l4proto { tcp, udp, sctp } update @flows%s { %s . th dport timeout %s counter } return", v.number, key, flowKept),
			fmt.Sprintf("ct direction original update @others%s { %s timeout %s counter } return", v.number, key, flowKept))
	}
	return lines(texts...)
}

// Denials returns the denied traffic. Its size is bounded.
func (d *Driver) Denials(context.Context, bool) (r policyrules.Denials, err error) {
	d.mu.Lock()
	exists := d.have == nil || d.have.exists
	d.mu.Unlock()
	if !exists {
		return r, nil
	}
	for name := range noteSets {
		counters, err := d.nft.Packets(unix.NFPROTO_INET, tableName, name)
		if err != nil {
			return r, err
		}
		kind, version := name[:len(name)-1], name[len(name)-1:]
		size := 4
		if version == "6" {
			size = 16
		}
		for key, packets := range counters {
			if kind == "flows" || kind == "others" {
				if flow, ok := flowOf(key, size); ok {
					flow.Packets = packets
					r.Flows = append(r.Flows, flow)
				}
				continue
			}
			addr, ok := netip.AddrFromSlice([]byte(key))
			if !ok {
				continue
			}
			direction := contiv_filter.AccessList_INGRESS
			if strings.HasSuffix(kind, "-out") {
				direction = contiv_filter.AccessList_EGRESS
			}
			r.Subjects = append(r.Subjects, policyrules.DeniedSubject{Address: addr, Direction: direction, ByRule: strings.HasPrefix(kind, "denied"), Packets: packets})
		}
	}
	return r, nil
}

func flowOf(key string, size int) (flow policyrules.DeniedFlow, ok bool) {
	if len(key) < 2*size+4 {
		return flow, false
	}
	flow.Src, _ = netip.AddrFromSlice([]byte(key[:size]))
	flow.Dst, _ = netip.AddrFromSlice([]byte(key[size : 2*size]))
	flow.Protocol = key[2*size]
	if len(key) >= 2*size+6 {
		flow.Port = binary.BigEndian.Uint16([]byte(key[2*size+4:]))
	}
	return flow, true
}
