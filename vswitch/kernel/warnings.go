package kernel

import (
	"context"
	"encoding/binary"
	"fmt"
	"syscall"

	"github.com/contiv/contiv/netlink/namespace"
	"github.com/contiv/contiv/netlink/nlattr"
	"github.com/contiv/contiv/vswitch/kernel/drift"
	"golang.org/x/sys/unix"
)

// Groups of events about what sysctls say (linux/rtnetlink.h).
const (
	groupIPv4Netconf = 24
	groupIPv6Netconf = 25
)

// Warnings names the sysctls that the driver has set and somebody has changed since.
func (v *VSwitch) Warnings(context.Context) (warnings []string, err error) {
	needed := []string{"ipv4/ip_forward"}
	if v.Forwards6() {
		needed = append(needed, "ipv6/conf/all/forwarding")
	}
	err = v.NS.Run(func() error {
		for _, name := range needed {
			if value := namespace.ReadSysctl(name); value != "" && value != "1" {
				warnings = append(warnings, fmt.Sprintf("sysctl net/%s is %s: pods reach nothing beyond their node over %s: set it to 1, and find out who changed it",
					name, value, map[bool]string{true: "IPv4", false: "IPv6"}[name == "ipv4/ip_forward"]))
			}
		}
		return nil
	})
	return warnings, err
}

// sysctls watches them. No northbound value stands for a sysctl, so that there is none
// to report: it is said in the log, and by Warnings as long as it lasts.
type sysctls struct{ v *VSwitch }

type suspectSysctls struct{}

func (s sysctls) Notice(m syscall.NetlinkMessage, send func(drift.Notice)) {
	if m.Header.Type == unix.RTM_NEWNETCONF && ofAllDevices(m.Data) {
		send(drift.Notice{Suspect: suspectSysctls{}})
	}
}

// ofAllDevices reports whether a message is about what counts for all devices: each device that
// comes is told of as well.
func ofAllDevices(m []byte) bool {
	const sizeofNetconf, attrIndex, allDevices = 4, 1, -1 // struct netconfmsg, NETCONFA_IFINDEX, NETCONFA_IFINDEX_ALL
	if len(m) < sizeofNetconf {
		return false
	}
	for attr, value := range nlattr.All(m[sizeofNetconf:]) {
		if attr == attrIndex && len(value) == 4 {
			return int32(binary.NativeEndian.Uint32(value)) == allDevices
		}
	}
	return false
}

func (s sysctls) Check(b *drift.Batch) {
	if len(drift.Suspects[suspectSysctls](b)) == 0 {
		return
	}
	warnings, err := s.v.Warnings(context.Background())
	for _, w := range warnings {
		s.v.Log.Error("Somebody switched forwarding off", "problem", w)
	}
	if err != nil {
		s.v.Log.Warn("checking sysctls", "error", err)
	}
}
