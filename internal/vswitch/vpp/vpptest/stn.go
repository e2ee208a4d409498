package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/stn"
)

func handleSTN() {
	on(func(c *call, req *stn.StnAddDelRule, _ *stn.StnAddDelRuleReply) api.VPPApiError {
		at := slices.IndexFunc(c.stn, func(r stn.StnRulesDetails) bool { return r.IPAddress == req.IPAddress })
		rule := stn.StnRulesDetails{IPAddress: req.IPAddress, SwIfIndex: req.SwIfIndex}
		switch {
		case req.IsAdd && at >= 0:
			c.stn[at] = rule
		case req.IsAdd:
			c.stn = append(c.stn, rule)
		case at < 0:
			return api.NO_SUCH_ENTRY
		default:
			c.stn = slices.Delete(c.stn, at, at+1)
		}
		return 0
	})
	onDump(func(c *call, _ *stn.StnRulesDump, send func(*stn.StnRulesDetails)) {
		for _, r := range c.stn {
			send(&r)
		}
	})
}
