package nat

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/contiv/contiv/internal/lib/delta"

	"github.com/contiv/contiv/internal/vswitch/vpp/session"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"google.golang.org/protobuf/proto"
)

// SetDNAT applies the differences. All requests are sent at once; if VPP refuses one, the others
// are reverted.
func (v *NAT) SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	v.noteInterfaces(values)
	wanted := map[natKey]*natMapping{}
	for _, value := range values {
		mappings, err := v.renderDNAT(ctx, value)
		if err != nil {
			return fmt.Errorf("setting DNAT %q: %w", value.GetLabel(), err)
		}
		for key, m := range mappings {
			if wanted[key] != nil {
				return fmt.Errorf("setting DNAT %q: another value has a mapping for %s", value.GetLabel(), key)
			}
			wanted[key] = m
		}
	}
	return session.Wrap("setting "+labelsOf(values), v.replaceDNAT(ctx, values, wanted))
}

func (v *NAT) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	v.notes.changing.Lock()
	defer v.notes.changing.Unlock()
	v.forgetInterfaces(values)
	if on, err := v.isOn(ctx); err != nil || !on {
		return session.Wrap("removing "+labelsOf(values), err)
	}
	return session.Wrap("removing "+labelsOf(values), v.replaceDNAT(ctx, values, nil))
}

func labelsOf(values []*vpp_nat.DNat44) string {
	if len(values) == 1 {
		return fmt.Sprintf("DNAT %q", values[0].GetLabel())
	}
	return fmt.Sprintf("%d values of DNAT", len(values))
}

// replaceDNAT makes the wanted mappings those of the values.
func (v *NAT) replaceDNAT(ctx context.Context, values []*vpp_nat.DNat44, wanted map[natKey]*natMapping) error {
	all, err := v.readDNAT(ctx)
	if err != nil {
		return err
	}
	labels := map[string]bool{}
	for _, value := range values {
		labels[value.GetLabel()] = true
	}
	names := namesOfDNAT(values)
	ours := func(m *natMapping) bool { return isDNATTag(m.tag) && labels[labelOf(names, m.tag)] }
	mine := map[natKey]*natMapping{}
	for key, now := range all {
		switch {
		case ours(now):
			mine[key] = now
		case wanted[key] != nil:
			whose := fmt.Sprintf("DNAT %q", labelOf(names, now.tag))
			if !isDNATTag(now.tag) {
				whose = fmt.Sprintf("another owner (tag %q)", now.tag)
			}
			return fmt.Errorf("%s has a mapping already, of %s", key, whose)
		}
	}
	var steps []natStep
	added := map[natKey]*natMapping{}
	for _, step := range delta.Between(mine, wanted, (*natMapping).equal) {
		switch step.Kind {
		case delta.Add:
			added[step.Key] = step.New
			steps = append(steps, addMapping(step.Key, step.New)...)
		case delta.Change:
			steps = append(steps, changeMapping(step.Key, step.Old, step.New)...)
		case delta.Remove:
			steps = append(steps, removeMapping(step.Key, step.Old)...)
		}
	}
	// Deletions precede additions, because VPP may identify two mappings alike.
	slices.SortStableFunc(steps, func(a, b natStep) int { return a.phase - b.phase })
	if err := v.run(ctx, steps); err != nil {
		return err
	}
	return session.Wrap("ending connections from before", v.endSessions(ctx, added))
}

// removeAllBalanced removes all load-balanced mappings, including foreign ones.
func (v *NAT) removeAllBalanced(ctx context.Context) error {
	all, err := v.readDNAT(ctx)
	if err != nil {
		return err
	}
	var steps []natStep
	for key, m := range all {
		if m.kind == natBalanced {
			steps = append(steps, removeMapping(key, m)...)
		}
	}
	return v.run(ctx, steps)
}

func (v *NAT) ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
	v.noteInterfaces(expected)
	all, err := v.readDNAT(ctx)
	if err != nil {
		return nil, err
	}
	names := namesOfDNAT(expected)
	byLabel := map[string]map[natKey]*natMapping{}
	for key, m := range all {
		if !isDNATTag(m.tag) {
			continue
		}
		label := labelOf(names, m.tag)
		if byLabel[label] == nil {
			byLabel[label] = map[natKey]*natMapping{}
		}
		byLabel[label][key] = m
	}
	on, err := v.isOn(ctx)
	if err != nil {
		return nil, err
	}
	var found []*vpp_nat.DNat44
	for _, value := range expected {
		wanted, err := v.renderDNAT(ctx, value)
		if err != nil || !on || !maps.EqualFunc(wanted, byLabel[value.GetLabel()], (*natMapping).equal) {
			continue
		}
		found = append(found, proto.CloneOf(value))
		delete(byLabel, value.GetLabel())
	}
	for label, mappings := range byLabel {
		found = append(found, northboundDNAT(label, mappings))
	}
	return found, nil
}

// northboundDNAT describes mappings as found.
func northboundDNAT(label string, mappings map[natKey]*natMapping) *vpp_nat.DNat44 {
	value := &vpp_nat.DNat44{Label: label}
	for key, m := range mappings {
		proto := natProtocol(key.proto)
		if m.kind == natIdentity {
			for _, l := range m.locals {
				value.IdMappings = append(value.IdMappings, &vpp_nat.DNat44_IdentityMapping{
					IpAddress: key.addr.String(), Port: uint32(key.port), Protocol: proto, VrfId: l.vrf,
				})
			}
			continue
		}
		static := &vpp_nat.DNat44_StaticMapping{ExternalIp: key.addr.String(), ExternalPort: uint32(key.port), Protocol: proto, TwiceNat: m.mode, SessionAffinity: m.affinity}
		if m.pool.IsValid() {
			static.TwiceNatPoolIp = m.pool.String()
		}
		for _, l := range m.locals {
			if l != placeholder {
				static.LocalIps = append(static.LocalIps, &vpp_nat.DNat44_StaticMapping_LocalIP{
					LocalIp: l.addr.String(), LocalPort: uint32(l.port), VrfId: l.vrf, Probability: uint32(l.weight),
				})
			}
		}
		value.StMappings = append(value.StMappings, static)
	}
	return value
}

// noteInterfaces records which values depend on the addresses of which interfaces.
func (v *NAT) noteInterfaces(values []*vpp_nat.DNat44) {
	v.forgetInterfaces(values)
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	note := func(iface, label string) {
		if iface == "" {
			return
		}
		if v.notes.byInterface[iface] == nil {
			v.notes.byInterface[iface] = map[string]bool{}
		}
		v.notes.byInterface[iface][label] = true
	}
	for _, value := range values {
		for _, m := range value.GetStMappings() {
			note(m.GetExternalInterface(), value.GetLabel())
		}
		for _, m := range value.GetIdMappings() {
			note(m.GetInterface(), value.GetLabel())
		}
	}
}

func (v *NAT) forgetInterfaces(values []*vpp_nat.DNat44) {
	v.notes.mu.Lock()
	defer v.notes.mu.Unlock()
	for _, labels := range v.notes.byInterface {
		for _, value := range values {
			delete(labels, value.GetLabel())
		}
	}
}

var errNATOff = errors.New("NAT is off")
