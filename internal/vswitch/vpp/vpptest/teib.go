package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/teib"
)

func handleTEIB() {
	on(func(c *call, req *teib.TeibEntryAddDel, _ *teib.TeibEntryAddDelReply) api.VPPApiError {
		e := req.Entry
		if !c.hasInterface(e.SwIfIndex) {
			return api.INVALID_SW_IF_INDEX
		}
		at := slices.IndexFunc(c.teib, func(o teib.TeibEntry) bool { return o.SwIfIndex == e.SwIfIndex && o.Peer == e.Peer })
		switch {
		case req.IsAdd == 0 && at < 0:
			return api.NO_SUCH_ENTRY
		case req.IsAdd == 0:
			c.teib = slices.Delete(c.teib, at, at+1)
		case !c.hasTable(e.NhTableID, e.Nh.Af == ip_types.ADDRESS_IP6):
			return api.NO_SUCH_FIB
		case at >= 0:
			return api.ENTRY_ALREADY_EXISTS
		default:
			c.teib = append(c.teib, e)
		}
		return 0
	})
	onDump(func(c *call, _ *teib.TeibDump, send func(*teib.TeibDetails)) {
		for _, e := range c.teib {
			send(&teib.TeibDetails{Entry: e})
		}
	})
}
