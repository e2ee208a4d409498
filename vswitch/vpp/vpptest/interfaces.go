package vpptest

import (
	interfaces "go.fd.io/govpp/binapi/interface"
)

func init() {
	onDump(func(c *call, req *interfaces.SwInterfaceDump, send func(*interfaces.SwInterfaceDetails)) {
	})
}
