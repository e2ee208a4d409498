package nat

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/contiv/contiv/internal/netlink/nft"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// The rules that add clients of services with session affinity (affinity.go) to nat-clients:
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
	return nft.Words(
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0)},
		&expr.Bitwise{SourceRegister: reg(0), DestRegister: reg(0), Len: 4, Mask: native32(^uint32(affinityMask)), Xor: native32(mark)},
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0), SourceRegister: true},
	)
}

// marked matches a mark of setMark. It uses register 0.
func marked(mark uint32) []nft.Word {
	return nft.Words(
		&expr.Ct{Key: expr.CtKeyMARK, Register: reg(0)},
		&expr.Bitwise{SourceRegister: reg(0), DestRegister: reg(0), Len: 4, Mask: native32(affinityMask), Xor: native32(0)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: native32(mark)},
	)
}

func native32(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }

func (s *natState) remember(r *ruleset, timeouts map[natScope][]uint32) {
	isMarked := fmt.Sprintf("ct mark & %#x != 0 ", uint32(affinityMask))
	for _, chain := range []string{chainEstablished, chainEstablishedOwn} {
		r.add(chain, "confirmed by the client", isMarked+"ct status assured goto nat-remember")
		r.add(chain, "UDP with an answer", isMarked+"meta l4proto udp ct status seen-reply goto nat-remember")
	}
	for _, scope := range natScopes {
		for _, seconds := range timeouts[scope] {
			for _, apart := range []bool{false, true} {
				ports := scope.port()
				if apart {
					ports = scope.apart()
				}
				r.addWords(chainRemember, fmt.Sprintf("%s, %d s", ports, seconds), marked(scope.mark(apart)), s.family.ofConnection(ports, seconds),
					nft.Words(&expr.Dynset{
						SrcRegKey: reg(portReg), SrcRegData: reg(rememberedReg), SetName: mapClients,
						Operation: unix.NFT_DYNSET_OP_UPDATE, Timeout: time.Duration(seconds) * time.Second,
					}, &expr.Verdict{Kind: expr.VerdictGoto, Chain: chainRemembered}))
			}
		}
	}
	r.add(chainRemember, "nat-clients is full", "update @nat-unremembered { meta l4proto counter } goto nat-remembered")
	r.add(chainRemembered, "remembered", fmt.Sprintf("ct mark set ct mark & %#x", ^uint32(affinityMask)))
}

// ofConnection loads the key of the connection's service from a map of a scope, its client, and its
// backend. It matches only services with the timeout.
func (f *natFamily) ofConnection(ports string, seconds uint32) []nft.Word {
	return slices.Concat(
		f.portKey(ports, "$opened"), nft.Words(&expr.Cmp{Op: expr.CmpOpEq, Register: reg(0), Data: native32(seconds)}),
		f.load(portClientReg, "ct original $client"),
		f.load(rememberedReg, "meta mark"), // filler
		f.load(foundReg, "ct reply $client . ct reply proto-src"),
	)
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
