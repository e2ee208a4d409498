package nat

import (
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// natFamily is an IP version, with the differences of its table. A service is an address, a protocol
// and a port.
type natFamily struct {
	proto byte
	model string            // model of its values, for messages
	names *strings.Replacer // of rules
	regs  uint32            // registers of an address
	addr  nftables.SetDatatype
	// filler is as long as an address.
	filler nftables.SetDatatype
}

var (
	nat4 = &natFamily{
		proto: unix.NFPROTO_IPV4, model: "DNat44", names: newNames("ip"),
		regs: 1, addr: nftables.TypeIPAddr, filler: nftables.TypeMark,
	}
	nat6 = &natFamily{
		proto: unix.NFPROTO_IPV6, model: "DNat66", names: newNames("ip6"),
		regs: 4, addr: nftables.TypeIP6Addr, filler: nftables.TypeIP6Addr,
	}
)

func (f *natFamily) addressLength() int { return int(4 * f.regs) }

// serviceLength is the length of a service in keys.
func (f *natFamily) serviceLength() int { return f.addressLength() + 8 }

func (f *natFamily) batch() *nft.Batch { return &nft.Batch{Table: natTable, Family: f.proto} }

// load loads fields, joined by dots, into registers from the register r. Fields may have names of
// newNames.
func (f *natFamily) load(r uint32, fields string) []nft.Word {
	return nft.Load(f.names.Replace(fields), r)
}
