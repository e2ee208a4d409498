package nat

import (
	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Building blocks of rules (rules.go). A register has four bytes; longer data takes the following
// registers, too.

func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

func words(list ...expr.Any) []nft.Word {
	out := make([]nft.Word, len(list))
	for i, e := range list {
		out[i] = nft.Known{Any: e}
	}
	return out
}

const offsetSourcePort, offsetDstPort = 0, 2

func loadPort(offset, r uint32) expr.Any {
	return &expr.Payload{DestRegister: reg(r), Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}
}

// loadProtocol loads the transport protocol. For protocols without ports, the port is arbitrary,
// but no key contains such a protocol and a port.
func loadProtocol(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(r)} }

func inSet(set string, r uint32) expr.Any { return &expr.Lookup{SourceRegister: reg(r), SetName: set} }

func mapped(name string, from, to uint32) expr.Any {
	return &expr.Lookup{SourceRegister: reg(from), DestRegister: reg(to), IsDestRegSet: true, SetName: name}
}

func equal(r uint32, data []byte) expr.Any {
	return &expr.Cmp{Op: expr.CmpOpEq, Register: reg(r), Data: data}
}

func device(key expr.MetaKey, set string) []nft.Word {
	return words(&expr.Meta{Key: key, Register: reg(0)}, inSet(set, 0))
}

func verdict(kind expr.VerdictKind, chain string) expr.Any {
	return &expr.Verdict{Kind: kind, Chain: chain}
}

func bitSet(r, bit uint32) []nft.Word { return bits(r, bit, expr.CmpOpNeq) }

func bitClear(r, bit uint32) []nft.Word { return bits(r, bit, expr.CmpOpEq) }

func bits(r, bit uint32, op expr.CmpOp) []nft.Word {
	return words(
		&expr.Bitwise{SourceRegister: reg(r), DestRegister: reg(r), Len: 4, Mask: native32(bit), Xor: native32(0)},
		&expr.Cmp{Op: op, Register: reg(r), Data: native32(0)},
	)
}

func draw(slots, r uint32) expr.Any {
	return &expr.Numgen{Register: reg(r), Modulus: slots, Type: unix.NFT_NG_RANDOM}
}

func native32(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

func deviceKey(name string) string {
	key := make([]byte, nftables.TypeIFName.Bytes)
	copy(key, name)
	return string(key)
}
