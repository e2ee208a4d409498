package nat

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/netlink/nft"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The rules that add clients of services with session affinity (balance.go) to nat-clients:
//
//	prerouting, output   marked, and established? nat-remember
//	nat-remember         the key of the mark: add or renew the client ─> nat-remembered
//	                     nat-clients is full: count ─> nat-remembered
//	nat-remembered       remove the mark
//
// A connection is established when its client has confirmed that it got the answer, which forged
// sources cannot. UDP has no such confirmation: there the answer of the backend counts.
const (
	chainEstablished    = "nat-established"
	chainEstablishedOwn = "nat-established-own"
	chainRemember       = "nat-remember"
	chainRemembered     = "nat-remembered"

	setUnremembered = "nat-unremembered" // protocols; counts connections whose client has no place in nat-clients
)

// Bits of the connection mark that hold the key of nat-clients (natScope.mark) until the connection
// is established; 0: none.
const (
	affinityMask  = 0xf0000000
	affinityShift = 28
)

// mark returns the mark of connections whose client belongs into nat-clients with the key of
// nat-port, or that of nat-apart.
func (s natScope) mark(apart bool) uint32 {
	n := 1 + 2*uint32(slices.Index(natScopes, s))
	if apart {
		n++
	}
	return n << affinityShift
}

// setMark replaces the bits of affinityMask. It uses register 0.
func setMark(mark uint32) []nft.Word {
	return words(
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0)},
		&expr.Bitwise{SourceRegister: reg(0), DestRegister: reg(0), Len: 4, Mask: native32(^uint32(affinityMask)), Xor: native32(mark)},
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0), SourceRegister: true},
	)
}

func marked(compare expr.CmpOp, mark uint32) []nft.Word {
	return words(
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0)},
		&expr.Bitwise{SourceRegister: reg(0), DestRegister: reg(0), Len: 4, Mask: native32(affinityMask), Xor: native32(0)},
		&expr.Cmp{Op: compare, Register: reg(0), Data: native32(mark)},
	)
}

const (
	ctSeenReply = 1 << 1
	ctAssured   = 1 << 2
)

func (s *natState) remember(add adder) {
	timeouts := map[natScope][]uint32{}
	for _, c := range s.sortedClasses() {
		if c.timeout != 0 && !slices.Contains(timeouts[c.scope], c.timeout) {
			timeouts[c.scope] = append(timeouts[c.scope], c.timeout)
		}
	}
	if len(timeouts) == 0 {
		return
	}
	f := s.family
	status, remembered := words(&expr.Ct{Key: expr.CtKeySTATUS, Register: reg(0)}), words(verdict(expr.VerdictGoto, chainRemembered))
	for _, chain := range []string{chainEstablished, chainEstablishedOwn} {
		add(chain, "confirmed by the client", marked(expr.CmpOpNeq, 0), status, bitSet(0, ctAssured), words(verdict(expr.VerdictGoto, chainRemember)))
		add(chain, "UDP with an answer", marked(expr.CmpOpNeq, 0), words(loadProtocol(0), equal(0, []byte{unix.IPPROTO_UDP})),
			status, bitSet(0, ctSeenReply), words(verdict(expr.VerdictGoto, chainRemember)))
	}
	for _, scope := range natScopes {
		for _, seconds := range timeouts[scope] {
			for _, apart := range []bool{false, true} {
				ports := scope.port()
				if apart {
					ports = scope.apart()
				}
				add(chainRemember, fmt.Sprintf("%s, %d s", ports, seconds), marked(expr.CmpOpEq, scope.mark(apart)), f.ofConnection(ports, seconds),
					words(&expr.Dynset{
						SrcRegKey: reg(portReg), SrcRegData: reg(rememberedReg), SetName: mapClients,
						Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(seconds) * time.Second,
					}), remembered)
			}
		}
	}
	add(chainRemember, "not remembered", words(loadProtocol(0), &expr.Dynset{
		SrcRegKey: reg(0), SetName: setUnremembered, Operation: unix.NFT_DYNSET_OP_UPDATE, Exprs: []expr.Any{&expr.Counter{}},
	}), remembered)
	add(chainRemembered, "no mark", setMark(0))
}

// ofConnection loads the key of the connection's service from a map of a scope, its client, and its
// backend. It matches only services with the timeout.
func (f *natFamily) ofConnection(ports string, seconds uint32) []nft.Word {
	const replies = 1
	tuple := func(r, key uint32, direction byte) []nft.Word {
		return []nft.Word{nft.Tuple{Register: reg(r), Key: key, Direction: direction}}
	}
	return slices.Concat(
		f.portKey(ports, f.openedAt(f.serviceReg())), words(equal(0, native32(seconds))),
		tuple(portClientReg, f.openedBy, 0),
		words(&expr.Meta{Key: expr.MetaKeyMARK, Register: reg(rememberedReg)}), // filler
		tuple(foundReg, f.openedBy, replies), tuple(foundReg+f.regs, unix.NFT_CT_PROTO_SRC, replies),
	)
}

// unremembered describes setUnremembered, which packets fill.
func (f *natFamily) unremembered() *nftables.Set {
	s := f.newSet(setUnremembered, nftables.TypeInetProto)
	s.Dynamic, s.Size = true, 256
	return s
}

// ClientsNotRemembered counts connections to services with session affinity whose clients have no
// place among those that the kernel remembers.
func (v *Driver) ClientsNotRemembered(context.Context) (n uint64, err error) {
	for _, f := range []*natFamily{nat4, nat6} {
		counts, err := v.nat.Packets(f.proto, natTable, setUnremembered)
		if err != nil {
			return 0, fmt.Errorf("reading the counters of nftables table %q: %w", natTable, err)
		}
		for _, packets := range counts {
			n += packets
		}
	}
	return n, nil
}
