// Package verdict explains the decision of policies about a connection on a node. It evaluates the
// requested values and verifies that the vswitch holds them.
package verdict

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
	"github.com/contiv/contiv/internal/plugins/policy/configurator"
	"github.com/contiv/contiv/internal/vswitch/policyrules"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

// Values provides the values of the node, as *kvscheduler.Scheduler does.
type Values interface {
	Snapshot() kvscheduler.Snapshot
	Verify(ctx context.Context, keys ...string) ([]kvscheduler.Difference, error)
}

// Explain returns the reasons for which policies refuse a connection, including values missing from
// the vswitch, and the rules that allow it. Both are empty if no local policy selects an end of it.
func Explain(ctx context.Context, values Values, c policyrules.Connection) (wrong, way []string) {
	state, keys := about(values.Snapshot(), c)
	explanations := state.Explain(c)
	for _, e := range explanations {
		if e.Allowed {
			way = append(way, allowed(e))
		} else {
			wrong = append(wrong, refused(e, c))
		}
	}
	return append(wrong, differences(ctx, values, keys)...), way
}

// Refused returns the reasons for which the requested values refuse a connection.
func Refused(snapshot kvscheduler.Snapshot, c policyrules.Connection) (why []string) {
	state, _ := about(snapshot, c)
	for _, e := range state.Explain(c) {
		if !e.Allowed {
			why = append(why, refused(e, c))
		}
	}
	return why
}

func about(snapshot kvscheduler.Snapshot, c policyrules.Connection) (*policyrules.State, []string) {
	state, keys, added := policyrules.NewState(), []string{}, map[string]bool{}
	add := func(key string) proto.Message {
		v := snapshot.Get(key)
		if v == nil || v.Want == nil || added[key] {
			return nil
		}
		keys, added[key] = append(keys, key), true
		state.Put(v.Want)
		return v.Want
	}
	snapshot.Ascend(models.Subject.KeyPrefix(), func(v *kvscheduler.ValueSnapshot) bool {
		subject, ok := v.Want.(*contiv_filter.Subject)
		if !ok {
			return true
		}
		addrs := policyrules.ParseAddrs(subject.GetAddresses())
		if !slices.Contains(addrs, c.Src) && !slices.Contains(addrs, c.Dst) {
			return true
		}
		add(v.Key)
		for _, stages := range [][]*contiv_filter.Subject_Stage{subject.GetIngress(), subject.GetEgress()} {
			for _, stage := range stages {
				for _, name := range stage.GetLists() {
					list, _ := add(models.Key(&contiv_filter.AccessList{Name: name})).(*contiv_filter.AccessList)
					for _, r := range list.GetRules() {
						for _, set := range r.GetAddressSets() {
							add(models.Key(&contiv_filter.AddressSet{Name: set}))
						}
						for _, set := range r.GetEndpointSets() {
							add(models.Key(&contiv_filter.EndpointSet{Name: set}))
						}
					}
				}
			}
		}
		return true
	})
	return state, keys
}

func allowed(e policyrules.Explanation) string {
	what := fmt.Sprintf("%s of pod %s", direction(e), e.Subject)
	if e.List == "" {
		return fmt.Sprintf("%s: no rule of %s denies it", what, titles(e.Asked, configurator.IsPolicy))
	}
	list := e.Asked[len(e.Asked)-1]
	return fmt.Sprintf("%s: rule %s of %s allows it: %s", what, list.GetRules()[e.Rule].GetName(), policyrules.TitleOf(list), matched(e))
}

func refused(e policyrules.Explanation, c policyrules.Connection) string {
	what := fmt.Sprintf("%s of pod %s", direction(e), e.Subject)
	peer := c.Src
	if e.Direction == contiv_filter.AccessList_EGRESS {
		peer = c.Dst
	}
	switch {
	case e.List != "":
		list := e.Asked[len(e.Asked)-1]
		return fmt.Sprintf("rule %s of %s denies %s: %s", list.GetRules()[e.Rule].GetName(), policyrules.TitleOf(list), what, matched(e))
	case titles(e.Asked, configurator.Isolating) == "":
		return fmt.Sprintf("%s is denied until the pod and its namespace are known from Kubernetes, because policies may select the pod", what)
	}
	text := fmt.Sprintf("%s is isolated by %s, and no rule allows %s with %v", what, titles(e.Asked, configurator.Isolating), packets(c), peer)
	var near []string
	for _, n := range e.Near {
		if configurator.IsPolicy(n.List) && len(near) < named {
			near = append(near, n.Text)
		}
	}
	return strings.Join(append([]string{text}, near...), "; ")
}

func direction(e policyrules.Explanation) string { return strings.ToLower(e.Direction.String()) }

func matched(e policyrules.Explanation) string {
	if e.Port == "" {
		return e.Peer
	}
	return e.Peer + ", " + e.Port
}

func packets(c policyrules.Connection) string {
	switch c.Protocol {
	case policyrules.TCP:
		return fmt.Sprintf("port %d/tcp", c.Port)
	case policyrules.UDP:
		return fmt.Sprintf("port %d/udp", c.Port)
	case policyrules.SCTP:
		return fmt.Sprintf("port %d/sctp", c.Port)
	}
	return "ICMP"
}

const named = 5

// The list of the node's own networks belongs to no policy.
func titles(lists []*contiv_filter.AccessList, asked func(name string) bool) string {
	var texts []string
	for _, list := range lists {
		if asked(list.GetName()) {
			texts = append(texts, policyrules.TitleOf(list))
		}
	}
	return some(texts)
}

func some(texts []string) string {
	if n := len(texts) - named; n > 0 {
		texts = append(slices.Clone(texts[:named]), fmt.Sprintf("%d more", n))
	}
	return strings.Join(texts, ", ")
}

func differences(ctx context.Context, values Values, keys []string) []string {
	if len(keys) == 0 {
		return nil
	}
	found, err := values.Verify(ctx, keys...)
	if err != nil {
		return []string{fmt.Sprintf("reading policies from the vswitch failed: %v", err)}
	}
	if len(found) == 0 {
		return nil
	}
	var texts []string
	for _, d := range found {
		texts = append(texts, fmt.Sprintf("%s (%v)", d.Key, d.State))
	}
	return []string{"the vswitch lacks values of policies and may decide otherwise: " + some(texts)}
}

// Connection returns a policyrules.Connection. protocol is "tcp", "udp", "sctp", or "" for ICMP.
func Connection(from, to netip.Addr, protocol string, port uint16) policyrules.Connection {
	c := policyrules.Connection{Src: from, Dst: to, Port: port}
	switch {
	case protocol == "tcp":
		c.Protocol = policyrules.TCP
	case protocol == "udp":
		c.Protocol = policyrules.UDP
	case protocol == "sctp":
		c.Protocol = policyrules.SCTP
	case to.Is4():
		c.Protocol = policyrules.ICMP
	default:
		c.Protocol = policyrules.ICMPv6
	}
	return c
}
