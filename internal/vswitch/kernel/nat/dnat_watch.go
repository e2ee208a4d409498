package nat

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/netlink/rtnl"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"

	contiv_nat "github.com/contiv/contiv/api/contiv/nat"
	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/internal/vswitch/kernel/drift"
	"github.com/contiv/contiv/models"
	"golang.org/x/sys/unix"
)

type suspectExternal string

// Notice suspects interfaces with changed addresses.
func (v *Driver) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if m.Header.Type == unix.RTM_NEWADDR || m.Header.Type == unix.RTM_DELADDR {
		v.dnat4().noticeExternal(m.Data, send)
	}
}

// Check reports NAT if another party changed one of its tables, and values rendered for outdated
// interface addresses.
func (v *Driver) Check(b *drift.Batch) {
	if by, foreign := v.NFT.Foreign(drift.Suspects[nft.Change](b), "ip "+natTable, "ip6 "+natTable); foreign {
		b.Report(fmt.Sprintf("nftables table %q was changed%s", natTable, by), slices.Concat(
			own.KeysOfAll[*vpp_nat.Nat44Global](v.Reg), own.KeysOfAll[*vpp_nat.Nat44Interface](v.Reg), own.KeysOfAll[*vpp_nat.Nat44AddressPool](v.Reg),
			own.KeysOfAll[*vpp_nat.DNat44](v.Reg), own.KeysOfAll[*contiv_nat.SourceNAT66](v.Reg), own.KeysOfAll[*contiv_nat.DNat66](v.Reg),
			own.KeysOfAll[*contiv_nat.ServiceNetwork](v.Reg))...)
	}
	for _, iface := range drift.Suspects[suspectExternal](b) {
		v.dnat4().checkExternals(b, string(iface))
	}
}

// noticeExternal suspects an external interface with changed addresses, also after our own changes,
// because DNAT must follow.
func (v dnat) noticeExternal(data []byte, send func(drift.Notice)) {
	a, ok := rtnl.ParseAddress(data)
	if !ok || !a.Prefix.Addr().Is4() {
		return
	}
	name, ok := v.Dev.Name(a.Index)
	if !ok {
		return
	}
	for _, key := range v.Reg.KeysOf(name) {
		if value, _ := v.Reg.Get(key); isDNAT(value) {
			send(drift.Notice{Suspect: suspectExternal(name)})
			return
		}
	}
}

func isDNAT(value any) bool {
	_, ok := value.(*vpp_nat.DNat44)
	return ok
}

// checkExternals reports values rendered for other addresses of an interface.
func (v dnat) checkExternals(b *drift.Batch, iface string) {
	v.nat.Lock()
	defer v.nat.Unlock()
	for _, key := range v.Reg.KeysOf(iface) {
		known, _ := v.Reg.Get(key)
		value, ok := known.(*vpp_nat.DNat44)
		if !ok {
			continue
		}
		mappings, err := v.render(value)
		if err == nil && !slices.Equal(content(mappings), v.state.known[value.GetLabel()]) {
			b.Report(fmt.Sprintf("addresses of interface %q, which DNAT %q stands for, changed", iface, value.GetLabel()), models.Key(value))
		}
	}
}
