package srv6

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Encapsulations and functions in the kernel's format of lightweight tunnels (linux/seg6_iptunnel.h,
// linux/seg6_local.h, linux/seg6.h).

const (
	seg6IptunnelSRH = 1

	seg6LocalFlavors   = 11
	seg6LocalFlavorOps = 1
	seg6LocalFlavorPSP = 1 << 1
)

// srh returns a segment routing header. The kernel stores the segments from last to first. An
// inserted header has room for the packet's own destination as the last segment.
func srh(segments []netip.Addr, insert bool) []byte {
	list := slices.Clone(segments)
	if insert {
		list = append(list, netip.IPv6Unspecified())
	}
	last := byte(len(list) - 1)
	header := []byte{0, byte(2 * len(list)), nl.IPV6_SRCRT_TYPE_4, last, last, 0, 0, 0}
	for _, s := range slices.Backward(list) {
		header = append(header, s.AsSlice()...)
	}
	return header
}

func parseSRH(header []byte, insert bool) (segments []netip.Addr) {
	if len(header) < 8 {
		return nil
	}
	for rest := header[8:]; len(rest) >= 16; rest = rest[16:] {
		addr, _ := netip.AddrFromSlice(rest[:16])
		segments = append(segments, addr)
	}
	slices.Reverse(segments)
	if insert && len(segments) > 0 {
		segments = segments[:len(segments)-1]
	}
	return segments
}

// srTunnel returns the encapsulation for a list of segments.
func srTunnel(segments []netip.Addr, insert bool) []byte {
	mode := uint32(nl.SEG6_IPTUN_MODE_ENCAP)
	if insert {
		mode = nl.SEG6_IPTUN_MODE_INLINE
	}
	value := binary.NativeEndian.AppendUint32(nil, mode)
	return nl.NewRtAttr(seg6IptunnelSRH, append(value, srh(segments, insert)...)).Serialize()
}

func parseSRTunnel(encap []byte) (segments []netip.Addr, insert bool) {
	for attr, value := range nlattr.All(encap) {
		if attr == seg6IptunnelSRH && len(value) > 4 {
			insert = binary.NativeEndian.Uint32(value) == nl.SEG6_IPTUN_MODE_INLINE
			segments = parseSRH(value[4:], insert)
		}
	}
	return segments, insert
}

type srFunction struct {
	action  uint32
	nh4     netip.Addr
	nh6     netip.Addr
	lookup  bool // by all rules, instead of one table
	oif     uint32
	psp     bool
	through []byte // header of a binding SID
}

func (f srFunction) encode() (encap []byte) {
	add := func(attr int, value []byte) { encap = append(encap, nl.NewRtAttr(attr, value).Serialize()...) }
	add(nl.SEG6_LOCAL_ACTION, nl.Uint32Attr(f.action))
	if f.through != nil {
		add(nl.SEG6_LOCAL_SRH, f.through)
	}
	if f.nh4.IsValid() {
		add(nl.SEG6_LOCAL_NH4, f.nh4.AsSlice())
	}
	if f.nh6.IsValid() {
		add(nl.SEG6_LOCAL_NH6, f.nh6.AsSlice())
	}
	if f.lookup {
		add(nl.SEG6_LOCAL_TABLE, nl.Uint32Attr(unix.RT_TABLE_UNSPEC))
	}
	if f.oif != 0 {
		add(nl.SEG6_LOCAL_OIF, nl.Uint32Attr(f.oif))
	}
	if f.psp {
		add(seg6LocalFlavors|unix.NLA_F_NESTED, nl.NewRtAttr(seg6LocalFlavorOps, nl.Uint32Attr(seg6LocalFlavorPSP)).Serialize())
	}
	return encap
}

func parseSRFunction(encap []byte) (f srFunction) {
	for attr, value := range nlattr.All(encap) {
		switch attr {
		case nl.SEG6_LOCAL_ACTION:
			f.action = binary.NativeEndian.Uint32(value)
		case nl.SEG6_LOCAL_SRH:
			f.through = value
		case nl.SEG6_LOCAL_NH4:
			f.nh4, _ = netip.AddrFromSlice(value)
		case nl.SEG6_LOCAL_NH6:
			f.nh6, _ = netip.AddrFromSlice(value)
		case nl.SEG6_LOCAL_OIF:
			f.oif = binary.NativeEndian.Uint32(value)
		case seg6LocalFlavors:
			for attr, ops := range nlattr.All(value) {
				f.psp = f.psp || attr == seg6LocalFlavorOps && binary.NativeEndian.Uint32(ops)&seg6LocalFlavorPSP != 0
			}
		}
	}
	return f
}
