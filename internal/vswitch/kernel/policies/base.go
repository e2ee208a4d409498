package policies

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/contiv/contiv/internal/netlink/nft"
	"github.com/contiv/contiv/internal/vswitch/kernel/own"
	"github.com/google/nftables"
	"golang.org/x/sys/unix"
)

// Bits of the connection mark that hold the generation of the last verdict; 0: none.
const (
	markMask       = 0x00ffff00
	markShift      = 8
	lastGeneration = 0xffff
)

// outside marks connections through a device that is not the vswitch's.
const outside = 0x01000000

// passed marks a packet that a list left to the next stage of the subject. It is valid within one
// stage.
const passed = 0x02000000

var (
	addressType = map[string]nftables.SetDatatype{"4": nftables.TypeIPAddr, "6": nftables.TypeIP6Addr}
	selfType    = map[string]nftables.SetDatatype{
		"4": nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeIPAddr),
		"6": nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeIP6Addr),
	}
	endpointType = map[string]nftables.SetDatatype{
		"4": nftables.MustConcatSetType(nftables.TypeIPAddr, nftables.TypeInetProto, nftables.TypeInetService),
		"6": nftables.MustConcatSetType(nftables.TypeIP6Addr, nftables.TypeInetProto, nftables.TypeInetService),
	}
)

var baseSets = map[string]nftables.SetDatatype{
	"self4": selfType["4"], "self6": selfType["6"],
	"subjects4": addressType["4"], "subjects6": addressType["6"],
}

// baseMaps map the addresses of subjects to chains.
var baseMaps = map[string]nftables.SetDatatype{"in4": addressType["4"], "in6": addressType["6"], "out4": addressType["4"], "out6": addressType["6"]}

var hooks = map[string]nft.Hook{
	"forward": {Type: "filter", Number: unix.NF_INET_FORWARD, Priority: -5},
	"output":  {Type: "filter", Number: unix.NF_INET_LOCAL_OUT, Priority: -5},
}

func baseChain(name string) *nftables.Chain {
	c := &nftables.Chain{Name: name}
	if hook, ok := hooks[name]; ok {
		c.Type, c.Hooknum, c.Priority = nftables.ChainTypeFilter, nftables.ChainHookRef(nftables.ChainHook(hook.Number)), nftables.ChainPriorityRef(nftables.ChainPriority(hook.Priority))
	}
	return c
}

var baseChains = []string{"forward", "output", "judge", "incoming", "pass", "stray", "errors", "denied-in", "denied-out", "isolated-in", "isolated-out", "flows"}

func baseLines(chain string, generation int) []line {
	judged := fmt.Sprintf("%#08x", generation<<markShift)
	switch chain {
	case "forward":
		list := lines(fmt.Sprintf("ct state established ct mark & %#08x == %s accept", markMask, judged), "goto judge")
		list[0].comment = generationComment(generation)
		return list
	case "output":
		// IPVS takes packets at hook input and sends them from here with their clients' addresses.
		// Packets that reject a connection are related to it and have the requested address.
		return lines("fib saddr type local accept", "ct state related accept", "goto judge")
	case "judge":
		return lines(
			"meta l4proto { icmp, icmpv6 } ct state related goto errors",
			// Without conntrack, the opener of the connection is unknown.
			"ct state invalid,untracked goto stray",
			"ct original ip saddr . ct reply ip saddr @self4 goto pass",
			"ct original ip6 saddr . ct reply ip6 saddr @self6 goto pass",
			"ct original ip saddr vmap @out4",
			"ct original ip6 saddr vmap @out6",
			"goto incoming")
	case "incoming":
		return lines("ct reply ip saddr vmap @in4", "ct reply ip6 saddr vmap @in6", "goto pass")
	case "pass":
		return lines(clearPassed,
			fmt.Sprintf("meta iifgroup != %d ct mark set ct mark | %#08x", own.DeviceGroup, outside),
			fmt.Sprintf("meta oifgroup != %d ct mark set ct mark | %#08x", own.DeviceGroup, outside),
			fmt.Sprintf("ct mark set ct mark & %#08x | %s accept", ^uint32(markMask), judged))
	case "stray":
		// Frames of a bridge, shown by br_netfilter: their packets are judged where they are routed.
		return lines("meta iifkind bridge meta oifkind bridge accept", "ip saddr @subjects4 drop", "ip daddr @subjects4 drop", "ip6 saddr @subjects6 drop", "ip6 daddr @subjects6 drop", "accept")
	case "errors":
		// ICMP errors about a connection. podguard has checked the packets from our devices. Other
		// devices are on the path only of connections that pass one of them.
		return lines(fmt.Sprintf("meta iifgroup %d accept", own.DeviceGroup), fmt.Sprintf("ct mark & %#08x != 0 accept", outside), "goto stray")
	case "flows":
		return flowLines()
	}
	return deniedLines(chain)
}

func next(generation int) int { return generation%lastGeneration + 1 }

func upperHalf(generation int) bool { return generation > lastGeneration/2 }

// comesBefore reports whether a connection may keep its mark at a generation: the marked generation
// is in the same half and not later. See Driver.clearMarks.
func comesBefore(marked, generation int) bool {
	return upperHalf(marked) == upperHalf(generation) && marked <= generation
}

func generationComment(generation int) string { return "generation " + strconv.Itoa(generation) }

func generationOf(comments []string) int {
	if len(comments) == 0 {
		return 0
	}
	text, _ := strings.CutPrefix(comments[0], "generation ")
	generation, err := strconv.Atoi(text)
	if err != nil || generation < 1 || generation > lastGeneration {
		return 0
	}
	return generation
}
