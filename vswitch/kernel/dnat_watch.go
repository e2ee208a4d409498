package kernel

import (
	"fmt"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"github.com/contiv/contiv/models"
)

// noticeExternal suspects that an interface that stands for its addresses has others
// now. Our own doing is no exception: DNAT is to follow.
func (v *VSwitch) noticeExternal(data []byte, send func(notice)) {
	a, ok := parseAddress(data)
	if !ok || !a.prefix.Addr().Is4() {
		return
	}
	name, ok := v.dev.name(a.index)
	if !ok {
		return
	}
	for _, key := range v.reg.keysOf(name) {
		if value, _ := v.reg.get(key); isDNAT(value) {
			send(notice{external: name})
			return
		}
	}
}

func isDNAT(value any) bool {
	_, ok := value.(*vpp_nat.DNat44)
	return ok
}

// checkExternals reports values that stand for other addresses of an interface than
// it has.
func (v dnat) checkExternals(b *batch, iface string) {
	v.nat.mu.Lock()
	defer v.nat.mu.Unlock()
	for _, key := range v.reg.keysOf(iface) {
		known, _ := v.reg.get(key)
		value, ok := known.(*vpp_nat.DNat44)
		if !ok {
			continue
		}
		mappings, err := v.render(value)
		if err == nil && !slices.Equal(content(mappings), v.state.known[value.GetLabel()]) {
			b.report(fmt.Sprintf("addresses of interface %q, which DNAT %q stands for, changed", iface, value.GetLabel()), []string{models.Key(value)})
		}
	}
}
