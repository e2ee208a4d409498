package nft

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/google/nftables/userdata"
	"golang.org/x/sys/unix"
)

// field is a part of a packet or its metadata that rules compare.
type field struct {
	typ nftables.SetDatatype
	// load puts the field into a register.
	load func(register uint32) []Word
	// network (NFPROTO_…) and transport are the protocols that a packet must have; 0: any.
	network, transport byte
	ethernet           bool
	native             bool // numbers in the machine's byte order
	names              map[string]uint64
	// typeof is nft's description of the field in user data of sets: an expression and its parts.
	typeof [3]uint32
}

var protocols = map[string]uint64{
	"icmp": unix.IPPROTO_ICMP, "tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "dccp": unix.IPPROTO_DCCP,
	"icmpv6": unix.IPPROTO_ICMPV6, "sctp": unix.IPPROTO_SCTP,
}

var ctStates = map[string]uint64{"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64}

// Expressions and header fields by the numbers that nft stores in the user data of sets.
const (
	typeofPayload = 7
	typeofMeta    = 9
	headerICMP    = 4
	headerIP      = 12
	headerIP6     = 13
	headerICMP6   = 14
)

const lenEther = 6

func ofPayload(base expr.PayloadBase, offset, length uint32) func(uint32) []Word {
	return func(register uint32) []Word {
		return Words(&expr.Payload{OperationType: expr.PayloadLoad, DestRegister: register, Base: base, Offset: offset, Len: length})
	}
}

func ofNetwork(offset, length uint32) func(uint32) []Word {
	return ofPayload(expr.PayloadBaseNetworkHeader, offset, length)
}

func ofTransport(offset, length uint32) func(uint32) []Word {
	return ofPayload(expr.PayloadBaseTransportHeader, offset, length)
}

func ofMeta(key expr.MetaKey) func(uint32) []Word {
	return func(register uint32) []Word { return Words(&expr.Meta{Key: key, Register: register}) }
}

func ofCt(key expr.CtKey) func(uint32) []Word {
	return func(register uint32) []Word { return Words(&expr.Ct{Key: key, Register: register}) }
}

// Conntrack keys that the library does not define (linux/netfilter/nf_tables.h).
const (
	ctSourceIP  = 19 // NFT_CT_SRC_IP
	ctSourceIP6 = 21 // NFT_CT_SRC_IP6
	// The library defines ctSourcePort but cannot encode a direction.
	ctSourcePort = unix.NFT_CT_PROTO_SRC
)

func ofTuple(key uint32, direction byte) func(uint32) []Word {
	return func(register uint32) []Word { return []Word{Tuple{Register: register, Key: key, Direction: direction}} }
}

// typeInteger16 is nft's type integer with two bytes.
func typeInteger16() nftables.SetDatatype {
	t := nftables.TypeInteger
	t.Bytes = 2
	return t
}

// Meta keys that the library does not define (linux/netfilter/nf_tables.h).
const (
	MetaInputKind  expr.MetaKey = 26 // NFT_META_IIFKIND
	MetaOutputKind expr.MetaKey = 27 // NFT_META_OIFKIND
	MetaTime       expr.MetaKey = 30 // NFT_META_TIME_NS
)

var fields = map[string]field{
	"meta nfproto":   {typ: nftables.TypeNFProto, load: ofMeta(expr.MetaKeyNFPROTO), names: map[string]uint64{"ipv4": unix.NFPROTO_IPV4, "ipv6": unix.NFPROTO_IPV6}},
	"meta protocol":  {typ: nftables.TypeEtherType, load: ofMeta(expr.MetaKeyPROTOCOL), names: map[string]uint64{"ip": unix.ETH_P_IP, "ip6": unix.ETH_P_IPV6}},
	"meta l4proto":   {typ: nftables.TypeInetProto, load: ofMeta(expr.MetaKeyL4PROTO), names: protocols, typeof: [3]uint32{typeofMeta, uint32(expr.MetaKeyL4PROTO)}},
	"iifname":        {typ: nftables.TypeIFName, load: ofMeta(expr.MetaKeyIIFNAME)},
	"oifname":        {typ: nftables.TypeIFName, load: ofMeta(expr.MetaKeyOIFNAME)},
	"meta iifkind":   {typ: nftables.TypeIFName, load: ofMeta(MetaInputKind)},
	"meta oifkind":   {typ: nftables.TypeIFName, load: ofMeta(MetaOutputKind)},
	"meta iifgroup":  {typ: nftables.TypeDevGroup, load: ofMeta(expr.MetaKeyIIFGROUP), native: true},
	"meta oifgroup":  {typ: nftables.TypeDevGroup, load: ofMeta(expr.MetaKeyOIFGROUP), native: true},
	"iif":            {typ: nftables.TypeIFIndex, load: ofMeta(expr.MetaKeyIIF), native: true, typeof: [3]uint32{typeofMeta, uint32(expr.MetaKeyIIF)}},
	"oif":            {typ: nftables.TypeIFIndex, load: ofMeta(expr.MetaKeyOIF), native: true, typeof: [3]uint32{typeofMeta, uint32(expr.MetaKeyOIF)}},
	"ether saddr":    {typ: nftables.TypeEtherAddr, load: ofPayload(expr.PayloadBaseLLHeader, 6, lenEther), ethernet: true},
	"ip saddr":       {typ: nftables.TypeIPAddr, load: ofNetwork(12, 4), network: unix.NFPROTO_IPV4, typeof: [3]uint32{typeofPayload, headerIP, 11}},
	"ip daddr":       {typ: nftables.TypeIPAddr, load: ofNetwork(16, 4), network: unix.NFPROTO_IPV4, typeof: [3]uint32{typeofPayload, headerIP, 12}},
	"ip frag-off":    {typ: typeInteger16(), load: ofNetwork(6, 2), network: unix.NFPROTO_IPV4},
	"ip6 saddr":      {typ: nftables.TypeIP6Addr, load: ofNetwork(8, 16), network: unix.NFPROTO_IPV6, typeof: [3]uint32{typeofPayload, headerIP6, 8}},
	"ip6 daddr":      {typ: nftables.TypeIP6Addr, load: ofNetwork(24, 16), network: unix.NFPROTO_IPV6, typeof: [3]uint32{typeofPayload, headerIP6, 9}},
	"ip6 hoplimit":   {typ: nftables.TypeICMPCode, load: ofNetwork(7, 1), network: unix.NFPROTO_IPV6},
	"icmp type":      {typ: nftables.TypeICMPType, load: ofTransport(0, 1), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP, names: map[string]uint64{"echo-reply": 0, "echo-request": 8}},
	"icmp code":      {typ: nftables.TypeICMPCode, load: ofTransport(1, 1), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP},
	"icmp id":        {typ: typeInteger16(), load: ofTransport(4, 2), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP, typeof: [3]uint32{typeofPayload, headerICMP, 4}},
	"icmpv6 type":    {typ: nftables.TypeICMP6Type, load: ofTransport(0, 1), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6, names: map[string]uint64{"echo-request": 128, "echo-reply": 129}},
	"icmpv6 code":    {typ: nftables.TypeICMPV6Code, load: ofTransport(1, 1), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6},
	"icmpv6 id":      {typ: typeInteger16(), load: ofTransport(4, 2), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6, typeof: [3]uint32{typeofPayload, headerICMP6, 6}},
	"tcp flags":      {typ: nftables.TypeTCPFlag, load: ofTransport(13, 1), transport: unix.IPPROTO_TCP, names: map[string]uint64{"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32}},
	"th sport":       {typ: nftables.TypeInetService, load: ofTransport(0, 2)},
	"th dport":       {typ: nftables.TypeInetService, load: ofTransport(2, 2)},
	"frag frag-off":  {typ: typeInteger16(), load: fragmentOffset, network: unix.NFPROTO_IPV6},
	"ct state":       {typ: nftables.TypeCTState, load: ofCt(expr.CtKeySTATE), native: true, names: ctStates},
	"ct mark":        {typ: nftables.TypeMark, load: ofCt(expr.CtKeyMARK), native: true},
	"meta mark":      {typ: nftables.TypeMark, load: ofMeta(expr.MetaKeyMARK), native: true},
	"ct direction":   {typ: nftables.TypeCTDir, load: ofCt(expr.CtKeyDIRECTION), names: map[string]uint64{"original": 0, "reply": 1}},
	"fib saddr type": {typ: nftables.TypeFIBAddr, load: sourceType, native: true, names: map[string]uint64{"local": unix.RTN_LOCAL}},

	"ct original ip saddr":  {typ: nftables.TypeIPAddr, load: ofTuple(ctSourceIP, 0)},
	"ct reply ip saddr":     {typ: nftables.TypeIPAddr, load: ofTuple(ctSourceIP, 1)},
	"ct original ip6 saddr": {typ: nftables.TypeIP6Addr, load: ofTuple(ctSourceIP6, 0)},
	"ct reply ip6 saddr":    {typ: nftables.TypeIP6Addr, load: ofTuple(ctSourceIP6, 1)},
	"ct reply proto-src":    {typ: nftables.TypeInetService, load: ofTuple(ctSourcePort, 1)},
}

// maxWords is the maximum number of words of a field name.
const maxWords = 4

// fragmentOffset loads the 13 bits of the offset in the fragment header, without the flags.
func fragmentOffset(register uint32) []Word {
	return Words(
		&expr.Exthdr{Op: expr.ExthdrOpIpv6, Type: unix.IPPROTO_FRAGMENT, Offset: 2, Len: 2, DestRegister: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: []byte{0xff, 0xf8}, Xor: []byte{0, 0}})
}

func sourceType(register uint32) []Word {
	return Words(&expr.Fib{Register: register, ResultADDRTYPE: true, FlagSADDR: true})
}

type span struct{ lo, hi []byte }

func (s span) single() bool { return string(s.lo) == string(s.hi) }

func (f field) value(text string) (span, error) {
	if f.typ.Name == nftables.TypeIPAddr.Name || f.typ.Name == nftables.TypeIP6Addr.Name {
		return f.addresses(text)
	}
	if n, ok := f.names[text]; ok {
		data := f.number(n)
		return span{data, data}, nil
	}
	switch f.typ.Name {
	case nftables.TypeEtherAddr.Name:
		mac, err := net.ParseMAC(text)
		return span{mac, mac}, err
	case nftables.TypeIFName.Name:
		name, err := strconv.Unquote(text)
		if err != nil {
			name = text
		}
		if len(name) >= unix.IFNAMSIZ {
			return span{}, fmt.Errorf("%q is too long for the name of a device", name)
		}
		data := DeviceKey(name)
		return span{[]byte(data), []byte(data)}, nil
	}
	lo, hi, isRange := strings.Cut(text, "-")
	if !isRange {
		hi = lo
	}
	bits := int(f.typ.Bytes * 8)
	first, err := strconv.ParseUint(lo, 0, bits)
	if err != nil {
		return span{}, err
	}
	last, err := strconv.ParseUint(hi, 0, bits)
	if err != nil {
		return span{}, err
	}
	return span{f.number(first), f.number(last)}, nil
}

func (f field) addresses(text string) (span, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return span{}, err
		}
		prefix = netip.PrefixFrom(addr, addr.BitLen())
	}
	if uint32(prefix.Addr().BitLen()) != f.typ.Bytes*8 {
		return span{}, fmt.Errorf("%s is of the other IP version", text)
	}
	lo := prefix.Masked().Addr().AsSlice()
	hi := append([]byte(nil), lo...)
	for i := prefix.Bits(); i < len(hi)*8; i++ {
		hi[i/8] |= 0x80 >> (i % 8)
	}
	return span{lo, hi}, nil
}

func (f field) number(n uint64) []byte {
	if f.native && f.typ.Bytes == 4 {
		return binary.NativeEndian.AppendUint32(nil, uint32(n))
	}
	return binary.BigEndian.AppendUint64(nil, n)[8-f.typ.Bytes:]
}

// DeviceKey returns a device name as a set key.
func DeviceKey(name string) string {
	return name + strings.Repeat("\x00", max(unix.IFNAMSIZ-len(name), 0))
}

// typeofSet describes a set by the fields of its key, like nft's typeof: the type number has no
// room for keys of many fields.
func typeofSet(name, key string) (*nftables.Set, []byte, error) {
	s := &nftables.Set{Name: name}
	var parts []byte
	var magic uint32
	described := true
	for i, name := range strings.Split(key, " . ") {
		f, ok := fields[name]
		if !ok {
			return nil, nil, fmt.Errorf("%q is no field of packets", name)
		}
		magic = magic<<nftables.SetConcatTypeBits | f.typ.GetNFTMagic()&nftables.SetConcatTypeMask
		s.KeyType.Bytes += padded(f.typ.Bytes)
		described = described && f.typeof[0] != 0 // nft 1.0 does not describe ports either
		if described {
			parts = appendNested(parts, byte(i), f.describe())
		}
	}
	s.KeyType.SetNFTMagic(magic)
	const byteOrder, typeofKey, kind, data, concat = 0, 3, 0, 1, 13
	number := func(b []byte, typ byte, n uint32) []byte {
		return appendNested(b, typ, binary.NativeEndian.AppendUint32(nil, n))
	}
	return s, appendNested(number(nil, byteOrder, 0), typeofKey, appendNested(number(nil, kind, concat), data, parts)), nil
}

// describe encodes the field as nft does in user data.
func (f field) describe() []byte {
	number := func(b []byte, typ userdata.Type, n uint32) []byte {
		return appendNested(b, byte(typ), binary.NativeEndian.AppendUint32(nil, n))
	}
	parts := number(nil, 0, f.typeof[1])
	if f.typeof[0] == typeofPayload {
		parts = number(parts, 1, f.typeof[2])
	}
	return appendNested(number(nil, 0, f.typeof[0]), 1, parts)
}

func appendNested(b []byte, typ byte, value []byte) []byte {
	return append(append(b, typ, byte(len(value))), value...)
}

// padded returns the length of a field in a key.
func padded(length uint32) uint32 { return (length + 3) / 4 * 4 }
