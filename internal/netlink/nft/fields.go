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
	typeof []uint32
}

var protocols = map[string]uint64{
	"icmp": unix.IPPROTO_ICMP, "tcp": unix.IPPROTO_TCP, "udp": unix.IPPROTO_UDP, "dccp": unix.IPPROTO_DCCP,
	"icmpv6": unix.IPPROTO_ICMPV6, "sctp": unix.IPPROTO_SCTP,
}

var ctStatuses = map[string]uint64{"seen-reply": 1 << 1, "assured": 1 << 2, "snat": 1 << 4, "dnat": 1 << 5}

var addressTypes = map[string]uint64{"local": unix.RTN_LOCAL}

var ctStates = map[string]uint64{"invalid": 1, "established": 2, "related": 4, "new": 8, "untracked": 64}

// Expressions and header fields by the numbers that nft stores in the user data of sets.
const (
	typeofPayload = 7
	typeofMeta    = 9
	typeofNumgen  = 23
	headerPorts   = 11
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

	ctDestinationIP   = 20 // NFT_CT_DST_IP
	ctDestinationIP6  = 22 // NFT_CT_DST_IP6
	ctDestinationPort = unix.NFT_CT_PROTO_DST
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
	"meta l4proto":   {typ: nftables.TypeInetProto, load: ofMeta(expr.MetaKeyL4PROTO), names: protocols, typeof: []uint32{typeofMeta, uint32(expr.MetaKeyL4PROTO)}},
	"iifname":        {typ: nftables.TypeIFName, load: ofMeta(expr.MetaKeyIIFNAME)},
	"oifname":        {typ: nftables.TypeIFName, load: ofMeta(expr.MetaKeyOIFNAME)},
	"meta iifkind":   {typ: nftables.TypeIFName, load: ofMeta(MetaInputKind)},
	"meta oifkind":   {typ: nftables.TypeIFName, load: ofMeta(MetaOutputKind)},
	"meta iifgroup":  {typ: nftables.TypeDevGroup, load: ofMeta(expr.MetaKeyIIFGROUP), native: true},
	"meta oifgroup":  {typ: nftables.TypeDevGroup, load: ofMeta(expr.MetaKeyOIFGROUP), native: true},
	"iif":            {typ: nftables.TypeIFIndex, load: ofMeta(expr.MetaKeyIIF), native: true, typeof: []uint32{typeofMeta, uint32(expr.MetaKeyIIF)}},
	"oif":            {typ: nftables.TypeIFIndex, load: ofMeta(expr.MetaKeyOIF), native: true, typeof: []uint32{typeofMeta, uint32(expr.MetaKeyOIF)}},
	"meta oiftype":   {typ: nftables.TypeARPHRD, load: ofMeta(expr.MetaKeyOIFTYPE), native: true, names: map[string]uint64{"loopback": unix.ARPHRD_LOOPBACK}},
	"ether saddr":    {typ: nftables.TypeEtherAddr, load: ofPayload(expr.PayloadBaseLLHeader, 6, lenEther), ethernet: true},
	"ip saddr":       {typ: nftables.TypeIPAddr, load: ofNetwork(12, 4), network: unix.NFPROTO_IPV4, typeof: []uint32{typeofPayload, headerIP, 11}},
	"ip daddr":       {typ: nftables.TypeIPAddr, load: ofNetwork(16, 4), network: unix.NFPROTO_IPV4, typeof: []uint32{typeofPayload, headerIP, 12}},
	"ip frag-off":    {typ: typeInteger16(), load: ofNetwork(6, 2), network: unix.NFPROTO_IPV4},
	"ip6 saddr":      {typ: nftables.TypeIP6Addr, load: ofNetwork(8, 16), network: unix.NFPROTO_IPV6, typeof: []uint32{typeofPayload, headerIP6, 8}},
	"ip6 daddr":      {typ: nftables.TypeIP6Addr, load: ofNetwork(24, 16), network: unix.NFPROTO_IPV6, typeof: []uint32{typeofPayload, headerIP6, 9}},
	"ip6 hoplimit":   {typ: nftables.TypeICMPCode, load: ofNetwork(7, 1), network: unix.NFPROTO_IPV6},
	"icmp type":      {typ: nftables.TypeICMPType, load: ofTransport(0, 1), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP, names: map[string]uint64{"echo-reply": 0, "echo-request": 8}},
	"icmp code":      {typ: nftables.TypeICMPCode, load: ofTransport(1, 1), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP},
	"icmp id":        {typ: typeInteger16(), load: ofTransport(4, 2), network: unix.NFPROTO_IPV4, transport: unix.IPPROTO_ICMP, typeof: []uint32{typeofPayload, headerICMP, 4}},
	"icmpv6 type":    {typ: nftables.TypeICMP6Type, load: ofTransport(0, 1), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6, names: map[string]uint64{"echo-request": 128, "echo-reply": 129}},
	"icmpv6 code":    {typ: nftables.TypeICMPV6Code, load: ofTransport(1, 1), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6},
	"icmpv6 id":      {typ: typeInteger16(), load: ofTransport(4, 2), network: unix.NFPROTO_IPV6, transport: unix.IPPROTO_ICMPV6, typeof: []uint32{typeofPayload, headerICMP6, 6}},
	"tcp flags":      {typ: nftables.TypeTCPFlag, load: ofTransport(13, 1), transport: unix.IPPROTO_TCP, names: map[string]uint64{"fin": 1, "syn": 2, "rst": 4, "psh": 8, "ack": 16, "urg": 32}},
	"th sport":       {typ: nftables.TypeInetService, load: ofTransport(0, 2), typeof: []uint32{typeofPayload, headerPorts, 1}},
	"th dport":       {typ: nftables.TypeInetService, load: ofTransport(2, 2), typeof: []uint32{typeofPayload, headerPorts, 2}},
	"frag frag-off":  {typ: typeInteger16(), load: fragmentOffset, network: unix.NFPROTO_IPV6},
	"ct state":       {typ: nftables.TypeCTState, load: ofCt(expr.CtKeySTATE), native: true, names: ctStates},
	"ct mark":        {typ: nftables.TypeMark, load: ofCt(expr.CtKeyMARK), native: true},
	"meta mark":      {typ: nftables.TypeMark, load: ofMeta(expr.MetaKeyMARK), native: true},
	"ct direction":   {typ: nftables.TypeCTDir, load: ofCt(expr.CtKeyDIRECTION), names: map[string]uint64{"original": 0, "reply": 1}},
	"ct status":      {typ: nftables.TypeCTStatus, load: ofCt(expr.CtKeySTATUS), native: true, names: ctStatuses},
	"fib saddr type": {typ: nftables.TypeFIBAddr, load: addressType(expr.Fib{FlagSADDR: true}), native: true, names: addressTypes},
	"fib daddr type": {typ: nftables.TypeFIBAddr, load: addressType(expr.Fib{FlagDADDR: true}), native: true, names: addressTypes},

	"ct original ip saddr":  {typ: nftables.TypeIPAddr, load: ofTuple(ctSourceIP, 0)},
	"ct reply ip saddr":     {typ: nftables.TypeIPAddr, load: ofTuple(ctSourceIP, 1)},
	"ct original ip6 saddr": {typ: nftables.TypeIP6Addr, load: ofTuple(ctSourceIP6, 0)},
	"ct reply ip6 saddr":    {typ: nftables.TypeIP6Addr, load: ofTuple(ctSourceIP6, 1)},
	"ct reply proto-src":    {typ: nftables.TypeInetService, load: ofTuple(ctSourcePort, 1)},
	"ct original ip daddr":  {typ: nftables.TypeIPAddr, load: ofTuple(ctDestinationIP, 0)},
	"ct original ip6 daddr": {typ: nftables.TypeIP6Addr, load: ofTuple(ctDestinationIP6, 0)},
	"ct original proto-dst": {typ: nftables.TypeInetService, load: ofTuple(ctDestinationPort, 0)},
}

// maxWords is the maximum number of words of a field name.
const maxWords = 4

// fragmentOffset loads the 13 bits of the offset in the fragment header, without the flags.
func fragmentOffset(register uint32) []Word {
	return Words(
		&expr.Exthdr{Op: expr.ExthdrOpIpv6, Type: unix.IPPROTO_FRAGMENT, Offset: 2, Len: 2, DestRegister: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: 2, Mask: []byte{0xff, 0xf8}, Xor: []byte{0, 0}})
}

// addressType loads the type of an address: the source or the destination, as flagged in of.
func addressType(of expr.Fib) func(uint32) []Word {
	return func(register uint32) []Word {
		e := of
		e.Register, e.ResultADDRTYPE = register, true
		return Words(&e)
	}
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
	switch {
	case f.native && f.typ.Bytes == 4:
		return binary.NativeEndian.AppendUint32(nil, uint32(n))
	case f.native && f.typ.Bytes == 2:
		return binary.NativeEndian.AppendUint16(nil, uint16(n))
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
	list, err := fieldsOf(key)
	if err != nil {
		return nil, nil, err
	}
	s := &nftables.Set{Name: name}
	var magic uint32
	for _, f := range list {
		magic = magic<<nftables.SetConcatTypeBits | f.typ.GetNFTMagic()&nftables.SetConcatTypeMask
		s.KeyType.Bytes += padded(f.typ.Bytes)
	}
	s.KeyType.SetNFTMagic(magic)
	return s, appendNested(nestedNumber(nil, keyByteOrder, 0), keyTypeof, typeofKey(list)), nil
}

// Attributes in the user data of sets.
const (
	keyByteOrder  = 0
	dataByteOrder = 1
	keyTypeof     = 3
	dataTypeof    = 4

	hostByteOrder = 1 // BYTEORDER_HOST_ENDIAN
)

func fieldsOf(key string) ([]field, error) {
	return (&parser{batch: &Batch{}, tokens: tokens(key)}).key()
}

// typeofKey encodes fields as nft does in user data.
func typeofKey(list []field) (parts []byte) {
	const kind, data, concat = 0, 1, 13
	for i, f := range list {
		if f.typeof == nil {
			break
		}
		parts = appendNested(parts, byte(i), f.describe())
	}
	return appendNested(nestedNumber(nil, kind, concat), data, parts)
}

func (f field) describe() (parts []byte) {
	for i, n := range f.typeof[1:] {
		parts = nestedNumber(parts, byte(i), n)
	}
	return appendNested(nestedNumber(nil, 0, f.typeof[0]), 1, parts)
}

func nestedNumber(b []byte, typ byte, n uint32) []byte {
	return appendNested(b, typ, binary.NativeEndian.AppendUint32(nil, n))
}

func appendNested(b []byte, typ byte, value []byte) []byte {
	return append(append(b, typ, byte(len(value))), value...)
}

// padded returns the length of a field in a key.
func padded(length uint32) uint32 { return (length + 3) / 4 * 4 }
