package nft

import (
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// MarkUntranslated is the mark (SO_MARK) of packets that the node's own tables translate for no service.
const MarkUntranslated = 0x7a000001

// Untranslated matches packets with MarkUntranslated and accepts them. A register of 4 bytes is given.
func Untranslated(register uint32) []Word {
	return Words(&expr.Meta{Key: expr.MetaKeyMARK, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: binaryutil.NativeEndian.PutUint32(MarkUntranslated)},
		&expr.Verdict{Kind: expr.VerdictAccept})
}
