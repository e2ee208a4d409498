package vpp

import (
	"context"
	"errors"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/vswitch/vpp/vppapi"
	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/arp"
	"go.fd.io/govpp/binapi/l3xc"
	"go.fd.io/govpp/binapi/span"
)

// clearFeatures removes what VPP keeps of an interface that is deleted, would not take a
// request for after that, and gives to the next interface of the same index: cross-connects,
// mirrors, proxy ARP.
func (v *VSwitch) clearFeatures(ctx context.Context, i index) error {
	var errs []error
	for _, ipv6 := range []bool{false, true} {
		err := v.call(ctx, l3xcModule, &l3xc.L3xcDel{SwIfIndex: i, IsIP6: ipv6}, &l3xc.L3xcDelReply{})
		if !errors.Is(err, kvscheduler.ErrUnsupported) && !vppapi.Refused(err, api.INVALID_VALUE) {
			errs = append(errs, err)
		}
	}
	errs = append(errs,
		v.call(ctx, arpModule, &arp.ProxyArpIntfcEnableDisable{SwIfIndex: i}, &arp.ProxyArpIntfcEnableDisableReply{}),
		bridges{v}.leave(ctx, i))
	for _, isL2 := range []bool{false, true} {
		all, err := dump[span.SwInterfaceSpanDetails](ctx, v, spanModule, &span.SwInterfaceSpanDump{IsL2: isL2})
		errs = append(errs, err)
		for _, d := range all {
			if d.SwIfIndexFrom == i || d.SwIfIndexTo == i {
				errs = append(errs, v.call(ctx, spanModule, &span.SwInterfaceSpanEnableDisable{
					SwIfIndexFrom: d.SwIfIndexFrom, SwIfIndexTo: d.SwIfIndexTo, IsL2: isL2,
				}, &span.SwInterfaceSpanEnableDisableReply{}))
			}
		}
	}
	for _, err := range errs {
		if err != nil && !vppapi.Refused(err, api.INVALID_SW_IF_INDEX) {
			return err
		}
	}
	return nil
}
