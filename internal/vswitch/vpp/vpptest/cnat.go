package vpptest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/cnat"
	"go.fd.io/govpp/binapi/feature"
	"go.fd.io/govpp/binapi/ip_types"
	"go.fd.io/govpp/binapi/urpf"
)

// cnatState is the plugin cnat.
type cnatState struct {
	translations pool[*cnat.CnatTranslation]
	sessions     []cnat.CnatSession
	snat4        ip_types.IP4Address
	snat6        ip_types.IP6Address
	accepted     map[netip.Prefix]int // by "set urpf-accept", how often
}

func newCNATState() cnatState { return cnatState{accepted: map[netip.Prefix]int{}} }

// featureNames maps arcs to the supported interface features.
var featureNames = map[string]string{
	"cnat-input-ip4": "ip4-unicast", "cnat-output-ip4": "ip4-output", "cnat-input-ip6": "ip6-unicast", "cnat-output-ip6": "ip6-output",
}

// resolved is the flag of paths with known addresses.
const resolved = 1

func (s *cnatState) find(t *cnat.CnatTranslation) (id uint32, found *cnat.CnatTranslation) {
	s.translations.each(func(n uint32, other *cnat.CnatTranslation) {
		if other.Vip == t.Vip && other.IPProto == t.IPProto {
			id, found = n, other
		}
	})
	return id, found
}

func (s *cnatState) translates(a netip.Addr) (found bool) {
	s.translations.each(func(_ uint32, t *cnat.CnatTranslation) { found = found || addr(t.Vip.Addr) == a })
	return found
}

// reported returns an endpoint as reported by VPP: without address while its interface's is
// unknown.
func (s *ifState) reported(e cnat.CnatEndpoint) (cnat.CnatEndpoint, bool) {
	if e.SwIfIndex != noIndex {
		e.Addr = ip_types.Address{}
		return e, false
	}
	e.IfAf = e.Addr.Af
	return e, true
}

// SetCNATSessions sets the sessions, which packets would create.
func (s *Server) SetCNATSessions(list ...cnat.CnatSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.cnat.sessions = list
}

func handleCNAT() {
	commands["show cnat timestamp"] = func(c *call) string { return fmt.Sprintf("Total timestamps %d\n", len(c.cnat.sessions)) }
	on(func(c *call, req *cnat.CnatTranslationUpdate, reply *cnat.CnatTranslationUpdateReply) api.VPPApiError {
		t := req.Translation
		if len(t.Paths) == 0 {
			return api.INVALID_VALUE // a real VPP would crash
		}
		paths := make([]cnat.CnatEndpointTuple, len(t.Paths))
		for i, p := range t.Paths {
			dst, dstKnown := c.ifs.reported(p.DstEp)
			src, srcKnown := c.ifs.reported(p.SrcEp)
			paths[i] = cnat.CnatEndpointTuple{DstEp: dst, SrcEp: src}
			if dstKnown && srcKnown {
				paths[i].Flags = resolved
			}
		}
		t.Vip, _ = c.ifs.reported(t.Vip)
		if id, found := c.cnat.find(&t); found != nil {
			found.Paths, reply.ID = paths, id // how one is chosen stays
			return 0
		}
		// VPP does not report the other fields.
		reply.ID = c.cnat.translations.add(&cnat.CnatTranslation{Vip: t.Vip, IPProto: t.IPProto, LbType: t.LbType, Paths: paths})
		return 0
	})
	on(func(c *call, req *cnat.CnatTranslationDel, _ *cnat.CnatTranslationDelReply) api.VPPApiError {
		if _, ok := c.cnat.translations.get(req.ID); !ok {
			return api.NO_SUCH_ENTRY
		}
		c.cnat.translations.remove(req.ID)
		return 0
	})
	onDump(func(c *call, _ *cnat.CnatTranslationDump, send func(*cnat.CnatTranslationDetails)) {
		c.cnat.translations.each(func(id uint32, t *cnat.CnatTranslation) {
			told := *t
			told.ID = id
			send(&cnat.CnatTranslationDetails{Translation: told})
		})
	})
	onDump(func(c *call, _ *cnat.CnatSessionDump, send func(*cnat.CnatSessionDetails)) {
		for _, s := range c.cnat.sessions {
			send(&cnat.CnatSessionDetails{Session: s})
		}
	})
	on(func(_ *call, req *cnat.CnatSetSnatPolicy, _ *cnat.CnatSetSnatPolicyReply) api.VPPApiError {
		if req.Policy > cnat.CNAT_POLICY_K8S {
			return 1
		}
		return 0
	})
	on(func(c *call, req *cnat.CnatSetSnatAddresses, _ *cnat.CnatSetSnatAddressesReply) api.VPPApiError {
		c.cnat.snat4, c.cnat.snat6 = req.SnatIP4, req.SnatIP6
		return 0
	})
	on(func(c *call, _ *cnat.CnatGetSnatAddresses, reply *cnat.CnatGetSnatAddressesReply) api.VPPApiError {
		reply.SnatIP4, reply.SnatIP6, reply.SwIfIndex = c.cnat.snat4, c.cnat.snat6, noIndex
		return 0
	})
	on(func(c *call, req *cnat.CnatSnatPolicyAddDelIf, _ *cnat.CnatSnatPolicyAddDelIfReply) api.VPPApiError {
		switch {
		case c.ifs.iface(req.SwIfIndex) == nil:
			return api.INVALID_SW_IF_INDEX
		case req.Table > cnat.CNAT_POLICY_HOST:
			return api.INVALID_VALUE
		}
		return 0
	})
	on(func(c *call, req *feature.FeatureEnableDisable, _ *feature.FeatureEnableDisableReply) api.VPPApiError {
		i := c.ifs.iface(req.SwIfIndex)
		switch {
		case i == nil:
			return api.INVALID_SW_IF_INDEX
		case featureNames[req.FeatureName] != req.ArcName:
			return api.INVALID_VALUE
		case req.Enable:
			i.features = append(i.features, req.FeatureName) // even if it is there
		default:
			if n := slices.Index(i.features, req.FeatureName); n >= 0 {
				i.features = slices.Delete(i.features, n, n+1)
			}
		}
		return 0
	})
	// Nothing here checks the reverse path.
	on(func(*call, *urpf.UrpfUpdate, *urpf.UrpfUpdateReply) api.VPPApiError { return 0 })
	commandsAbout["set urpf-accept "] = func(c *call, args string) string {
		for command := range strings.Lines("set urpf-accept " + args) {
			words := strings.Fields(command)
			network := netip.MustParsePrefix(words[3])
			switch words[2] {
			case "add":
				c.cnat.accepted[network]++
			case "del":
				c.cnat.accepted[network] = max(0, c.cnat.accepted[network]-1)
			}
		}
		return ""
	}
	for _, version := range []string{"ip", "ip6"} {
		commandsAbout["show "+version+" fib index 0 "] = func(c *call, args string) string {
			if network, err := netip.ParsePrefix(args); err == nil && c.cnat.accepted[network] > 0 {
				return args + "\n  urpf-exempt\n"
			}
			return ""
		}
	}
	commandsAbout["show interface features "] = func(c *call, name string) string {
		for _, i := range c.ifs.list {
			if i != nil && i.InterfaceName == name {
				return "Feature paths configured on " + name + "...\n\n" + strings.Join(i.features, "\n") + "\n"
			}
		}
		return "Interface not specified...\n"
	}
}
