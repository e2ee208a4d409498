package vpptest

import (
	"fmt"

	"go.fd.io/govpp/api"
	interfaces "go.fd.io/govpp/binapi/interface"
)

func handleCaptures() {
	commands["pcap trace status"] = func(c *call) string {
		if c.capture == "" {
			return "max is 0, for any interface to file (null)\npcap tx capture is off...\npcap rx capture is off...\npcap drop capture is off...\n"
		}
		return fmt.Sprintf("pcap drop capture is on: 0 of 200 pkts...\nfile /tmp/%s\n", c.capture)
	}
	on(func(c *call, req *interfaces.PcapTraceOn, _ *interfaces.PcapTraceOnReply) api.VPPApiError {
		if c.capture != "" {
			return api.INVALID_VALUE
		}
		c.capture = req.Filename
		return 0
	})
	on(func(c *call, _ *interfaces.PcapTraceOff, _ *interfaces.PcapTraceOffReply) api.VPPApiError {
		if c.capture == "" {
			return api.VALUE_EXIST
		}
		c.capture = ""
		return api.NO_SUCH_ENTRY // no packets
	})
}
