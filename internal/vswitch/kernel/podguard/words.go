package podguard

import (
	"encoding/binary"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Rules are lists of words. Keys with several parts are loaded into consecutive registers of 4
// bytes, from first on.
const (
	first       = 8
	afterDevice = first + 4 // behind a device name
	afterMAC    = afterDevice + 2
	scratch     = first + 12 // for comparisons, behind the longest key
)

type words []nft.Word

func of(list ...expr.Any) words { return nft.Words(list...) }

func join(parts ...words) (list words) {
	for _, p := range parts {
		list = append(list, p...)
	}
	return list
}

func meta(key expr.MetaKey, register uint32) words {
	return of(&expr.Meta{Key: key, Register: register})
}

func payload(base expr.PayloadBase, offset, length, register uint32) words {
	return of(&expr.Payload{OperationType: expr.PayloadLoad, DestRegister: register, Base: base, Offset: offset, Len: length})
}

func link(offset, length, register uint32) words {
	return payload(expr.PayloadBaseLLHeader, offset, length, register)
}

func network(offset, length, register uint32) words {
	return payload(expr.PayloadBaseNetworkHeader, offset, length, register)
}

// masked16 loads two masked bytes of the IP header into the scratch register.
func masked16(offset uint32, mask uint16) words {
	return join(network(offset, 2, scratch), of(&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 2, Mask: big16(mask), Xor: big16(0)}))
}

// firstBits10 loads the bits of an IPv6 address that fe80::/10 has in common.
func firstBits10(address uint32) words { return masked16(address, 0xffc0) }

func transport(offset, length, register uint32) words {
	return payload(expr.PayloadBaseTransportHeader, offset, length, register)
}

func fromDevice() words { return meta(expr.MetaKeyIIFNAME, first) }

func fromOthers() words {
	return join(meta(expr.MetaKeyIIFGROUP, scratch), differs(native32(own.DeviceGroup)...),
		meta(expr.MetaKeyIIFTYPE, scratch), differs(binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_LOOPBACK)...))
}

// reachedBy loads the name of the output device for the source.
func reachedBy() words {
	return of(&expr.Fib{Register: first, FlagSADDR: true, ResultOIFNAME: true})
}

// viaVSwitch matches packets with a source behind a vswitch interface.
func viaVSwitch() words {
	return join(reachedBy(), of(&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte(own.DevInterface)}))
}

// typeOf loads the type of the destination or the source, such as RTN_LOCAL for an address of the
// node.
func typeOf(source bool) words {
	return of(&expr.Fib{Register: scratch, FlagSADDR: source, FlagDADDR: !source, ResultADDRTYPE: true})
}

// discovery matches neighbour discovery among ICMPv6.
func discovery() words {
	return join(transport(0, 1, scratch), of(&expr.Range{Op: expr.CmpOpEq, Register: scratch, FromData: []byte{routerSolicitation}, ToData: []byte{redirect}}))
}

func equals(data ...byte) words {
	return of(&expr.Cmp{Op: expr.CmpOpEq, Register: scratch, Data: data})
}

func differs(data ...byte) words {
	return of(&expr.Cmp{Op: expr.CmpOpNeq, Register: scratch, Data: data})
}

func ofFamily(family byte) words { return join(meta(expr.MetaKeyNFPROTO, scratch), equals(family)) }

// status loads bits of the connection's status. Packets without a connection never match.
func status(bits uint32) words {
	return of(
		&expr.Ct{Key: expr.CtKeySTATUS, Register: scratch},
		&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 4, Mask: native32(bits), Xor: make([]byte, 4)},
	)
}

func translated() words { return join(status(statusTranslated), differs(0, 0, 0, 0)) }

func ofProtocol(protocol byte) words {
	return join(meta(expr.MetaKeyL4PROTO, scratch), equals(protocol))
}

// onEthernet ensures that the packet has a MAC address.
func onEthernet() words {
	return join(meta(expr.MetaKeyIIFTYPE, scratch), equals(binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)...))
}

func senderMAC() words { return link(6, 6, afterDevice) }

func inSet(set *nftables.Set) words {
	return of(&expr.Lookup{SourceRegister: first, SetName: set.Name})
}

func verdictOf(verdicts *nftables.Set) words {
	return of(&expr.Lookup{SourceRegister: first, SetName: verdicts.Name, IsDestRegSet: true})
}

func accept() words { return of(&expr.Verdict{Kind: expr.VerdictAccept}) }
func drop() words   { return of(&expr.Verdict{Kind: expr.VerdictDrop}) }

func jump(chain string) words { return of(&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}) }

func goTo(chain string) words { return of(&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}) }

func counted(set *nftables.Set) words {
	return join(fromDevice(), of(&expr.Dynset{
		SrcRegKey: first, SetName: set.Name, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE), Exprs: []expr.Any{&expr.Counter{}},
	}), drop())
}

func big16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
