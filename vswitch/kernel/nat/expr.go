package nat

import (
	"time"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The words that rules are made of (nat_rules.go). A register has four bytes; what
// needs more takes those that follow.

func reg(n uint32) uint32 { return unix.NFT_REG32_00 + n }

// words are words in a row.
func words(list ...expr.Any) []nft.Word {
	out := make([]nft.Word, len(list))
	for i, e := range list {
		out[i] = nft.Known{Any: e}
	}
	return out
}

// Offsets of ports: TCP, UDP and SCTP.
const offsetSourcePort, offsetDstPort = 0, 2

func loadPort(offset, r uint32) expr.Any {
	return &expr.Payload{DestRegister: reg(r), Base: expr.PayloadBaseTransportHeader, Offset: offset, Len: 2}
}

// loadProtocol loads the number of the transport protocol. Ports of others than TCP,
// UDP and SCTP are nonsense then; no key in a set has both.
func loadProtocol(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: reg(r)} }

// inSet matches keys that are in a set.
func inSet(set string, r uint32) expr.Any { return &expr.Lookup{SourceRegister: reg(r), SetName: set} }

// mapped loads the map's data for the key into registers, if the map has the key.
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

// bitSet matches if a bit of the register is set, bitClear if it is not.
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

// remember stores a value in a map for so long, unless the map already has the key: then it
// only does so for so long again.
func remember(set string, key, data uint32, timeout time.Duration) expr.Any {
	return &expr.Dynset{SrcRegKey: reg(key), SrcRegData: reg(data), SetName: set, Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: timeout}
}

// rememberNew stores a value in a map for so long, unless the map already has the key.
func rememberNew(set string, key, data uint32, timeout time.Duration) expr.Any {
	return &expr.Dynset{SrcRegKey: reg(key), SrcRegData: reg(data), SetName: set, Operation: unix.NFT_DYNSET_OP_ADD, Timeout: timeout}
}

func native32(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

// deviceKey is the name of a device as nftables has it in sets.
func deviceKey(name string) string {
	key := make([]byte, nftables.TypeIFName.Bytes)
	copy(key, name)
	return string(key)
}
