package ctl

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
)

func (c *cli) interfacesCommand() *cobra.Command {
	return perNode(c, &cobra.Command{
		Use:   "interfaces [NODE]",
		Short: "The interfaces of the vswitches: links, and what they have carried",
		Long: `Shows the interfaces of the vswitches as they are now. LINK is UP, DOWN without a
carrier, or "disabled"; SINCE when that began. RX is what the vswitch has received, in packets.`,
	}, ifstate.URL, func(p printer, good []answer[ifstate.Report]) {
		t := p.Table("NODE", "INTERFACE", "TYPE", "DEVICE", "LINK", "SINCE", "MTU", "SPEED", "RX", "TX", "DROPS", "MAC")
		for _, a := range good {
			for _, data := range a.Value.Interfaces {
				var s vpp_interfaces.InterfaceState
				if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, &s); err != nil {
					t.Add(a.Agent.Name, "?", err.Error())
					continue
				}
				t.Add(append([]string{a.Agent.Name}, interfaceRow(&s)...)...)
			}
		}
		t.Print()
	})
}

func interfaceRow(s *vpp_interfaces.InterfaceState) []string {
	link := s.GetOperStatus().String()
	if s.GetAdminStatus() == vpp_interfaces.InterfaceState_DOWN {
		link = "disabled"
	}
	since := ""
	if s.GetLastChange() != 0 {
		since, _, _ = strings.Cut(stamp(time.Unix(s.GetLastChange(), 0)), ".")
	}
	row := []string{s.GetName(), s.GetType().String(), s.GetInternalName(), link, since, strconv.FormatUint(uint64(s.GetMtu()), 10), speed(s.GetSpeed())}
	counters := []string{"", "", ""}
	if n := s.GetStatistics(); n != nil {
		for i, count := range []uint64{n.GetInPackets(), n.GetOutPackets(), n.GetDropPackets()} {
			counters[i] = strconv.FormatUint(count, 10)
		}
	}
	return append(append(row, counters...), s.GetPhysAddress())
}

// speed shows bits per second; "" if it is not known.
func speed(bits uint64) string {
	switch {
	case bits == 0:
		return ""
	case bits%1e9 == 0:
		return fmt.Sprintf("%dG", bits/1e9)
	}
	return fmt.Sprintf("%dM", bits/1e6)
}
