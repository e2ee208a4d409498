package podguard

import (
	"encoding/binary"

	"github.com/contiv/contiv/netlink/nft"
	"github.com/contiv/contiv/vswitch/kernel/own"
	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Rules are written as lists of words. Keys of sets that have several parts are loaded
// into consecutive registers of 4 bytes, from the first one on.
const (
	first       = 8         // NFT_REG32_00
	afterDevice = first + 4 // behind the name of a device
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

// link, network and transport load a part of the header of that layer.
func link(offset, length, register uint32) words {
	return payload(expr.PayloadBaseLLHeader, offset, length, register)
}

func network(offset, length, register uint32) words {
	return payload(expr.PayloadBaseNetworkHeader, offset, length, register)
}

func transport(offset, length, register uint32) words {
	return payload(expr.PayloadBaseTransportHeader, offset, length, register)
}

func fromDevice() words { return meta(expr.MetaKeyIIFNAME, first) }

// fromOthers matches packets that a device received that is neither the vswitch's nor the loopback.
func fromOthers() words {
	return join(meta(expr.MetaKeyIIFGROUP, scratch), differs(native32(own.DeviceGroup)...),
		meta(expr.MetaKeyIIFTYPE, scratch), differs(binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_LOOPBACK)...))
}

// reachedBy loads the name of the device by which the node reaches the source.
func reachedBy() words {
	return of(&expr.Fib{Register: first, FlagSADDR: true, ResultOIFNAME: true})
}

// viaVSwitch matches packets whose source the node reaches by an interface that the vswitch has made.
func viaVSwitch() words {
	return join(reachedBy(), of(&expr.Cmp{Op: expr.CmpOpEq, Register: first, Data: []byte(own.DevInterface)}))
}

// equals compares what was loaded into the scratch register.
func equals(data ...byte) words {
	return of(&expr.Cmp{Op: expr.CmpOpEq, Register: scratch, Data: data})
}

func differs(data ...byte) words {
	return of(&expr.Cmp{Op: expr.CmpOpNeq, Register: scratch, Data: data})
}

func ofFamily(family byte) words { return join(meta(expr.MetaKeyNFPROTO, scratch), equals(family)) }

// status loads bits of the status of the packet's connection. Packets without one match no rule that does.
func status(bits uint32) words {
	return of(
		&expr.Ct{Key: expr.CtKeySTATUS, Register: scratch},
		&expr.Bitwise{SourceRegister: scratch, DestRegister: scratch, Len: 4, Mask: native32(bits), Xor: make([]byte, 4)},
	)
}

// translated matches packets whose source or destination the node translates.
func translated() words { return join(status(statusTranslated), differs(0, 0, 0, 0)) }

func ofProtocol(protocol byte) words {
	return join(meta(expr.MetaKeyL4PROTO, scratch), equals(protocol))
}

// onEthernet makes sure that there is a MAC address to load.
func onEthernet() words {
	return join(meta(expr.MetaKeyIIFTYPE, scratch), equals(binary.NativeEndian.AppendUint16(nil, unix.ARPHRD_ETHER)...))
}

func senderMAC() words { return link(6, 6, afterDevice) }

// inSet continues if the loaded key is in the set.
func inSet(set *nftables.Set) words {
	return of(&expr.Lookup{SourceRegister: first, SetName: set.Name})
}

// verdictOf executes the verdict that the map holds for the loaded key.
func verdictOf(verdicts *nftables.Set) words {
	return of(&expr.Lookup{SourceRegister: first, SetName: verdicts.Name, IsDestRegSet: true})
}

func accept() words { return of(&expr.Verdict{Kind: expr.VerdictAccept}) }
func drop() words   { return of(&expr.Verdict{Kind: expr.VerdictDrop}) }

func jump(chain string) words { return of(&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}) }

func goTo(chain string) words { return of(&expr.Verdict{Kind: expr.VerdictGoto, Chain: chain}) }

// counted counts the packet for its device, and drops it.
func counted(set *nftables.Set) words {
	return join(fromDevice(), of(&expr.Dynset{
		SrcRegKey: first, SetName: set.Name, Operation: uint32(unix.NFT_DYNSET_OP_UPDATE), Exprs: []expr.Any{&expr.Counter{}},
	}), drop())
}

// big16 is a number as it is in packets.
func big16(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) }
