package vpp

import "github.com/contiv/contiv/vswitch"

func (v *VSwitch) NAT66() vswitch.NAT66 { return nil }
