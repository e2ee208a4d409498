package vpp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
	"google.golang.org/protobuf/proto"
)

// SetDNAT changes what differs. All requests are sent at once; if VPP refuses one, the
// others are taken back.
func (v nat) SetDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	v.nat.changing.Lock()
	defer v.nat.changing.Unlock()
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
	return natError("setting "+labelsOf(values), v.replaceDNAT(ctx, values, wanted))
}

func (v nat) RemoveDNAT(ctx context.Context, values ...*vpp_nat.DNat44) error {
	v.nat.changing.Lock()
	defer v.nat.changing.Unlock()
	v.forgetInterfaces(values)
	if on, err := v.isOn(ctx); err != nil || !on {
		return natError("removing "+labelsOf(values), err)
	}
	return natError("removing "+labelsOf(values), v.replaceDNAT(ctx, values, nil))
}

func labelsOf(values []*vpp_nat.DNat44) string {
	if len(values) == 1 {
		return fmt.Sprintf("DNAT %q", values[0].GetLabel())
	}
	return fmt.Sprintf("%d values of DNAT", len(values))
}

// namesOfDNAT also knows the labels of tags with details, which may be hashed.
func namesOfDNAT(values []*vpp_nat.DNat44) tagNames {
	names := namesOf(values, (*vpp_nat.DNat44).GetLabel)
	for _, value := range values {
		for _, m := range value.GetStMappings() {
			if mapping, err := staticMapping(value.GetLabel(), m); err == nil && isLongTag(mapping.tag) {
				names[mapping.tag] = value.GetLabel()
			}
		}
	}
	return names
}

func (n tagNames) label(tag string) string {
	label, _ := n.dnatLabel(tag)
	return label
}

// replaceDNAT makes the wanted mappings those of the values.
func (v nat) replaceDNAT(ctx context.Context, values []*vpp_nat.DNat44, wanted map[natKey]*natMapping) error {
	all, err := v.readDNAT(ctx)
	if err != nil {
		return err
	}
	labels := map[string]bool{}
	for _, value := range values {
		labels[value.GetLabel()] = true
	}
	names := namesOfDNAT(values)
	ours := func(m *natMapping) bool { return isDNATTag(m.tag) && labels[names.label(m.tag)] }
	var steps []natStep
	for key, now := range all {
		if wanted[key] == nil && ours(now) {
			steps = append(steps, removeMapping(key, now)...)
		}
	}
	added := map[natKey]*natMapping{}
	for key, m := range wanted {
		now := all[key]
		switch {
		case now == nil:
			added[key] = m
			steps = append(steps, addMapping(key, m)...)
		case !ours(now):
			whose := fmt.Sprintf("DNAT %q", names.label(now.tag))
			if !isDNATTag(now.tag) {
				whose = fmt.Sprintf("somebody else (tag %q)", now.tag)
			}
			return fmt.Errorf("%s has a mapping already, of %s", key, whose)
		case !now.equal(m):
			steps = append(steps, changeMapping(key, now, m)...)
		}
	}
	// What goes is gone before what comes: two mappings may have the same identity for VPP.
	slices.SortStableFunc(steps, func(a, b natStep) int { return a.phase - b.phase })
	if err := v.run(ctx, steps); err != nil {
		return err
	}
	return natError("ending connections from before", v.endSessions(ctx, added))
}

// removeAllBalanced removes the load-balanced mappings of everybody.
func (v nat) removeAllBalanced(ctx context.Context) error {
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

func (v nat) ListDNAT(ctx context.Context, expected []*vpp_nat.DNat44) ([]*vpp_nat.DNat44, error) {
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
		label := names.label(m.tag)
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

// noteInterfaces remembers which values depend on the addresses of which interfaces.
func (v nat) noteInterfaces(values []*vpp_nat.DNat44) {
	v.forgetInterfaces(values)
	v.nat.mu.Lock()
	defer v.nat.mu.Unlock()
	note := func(iface, label string) {
		if iface == "" {
			return
		}
		if v.nat.byInterface[iface] == nil {
			v.nat.byInterface[iface] = map[string]bool{}
		}
		v.nat.byInterface[iface][label] = true
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

func (v nat) forgetInterfaces(values []*vpp_nat.DNat44) {
	v.nat.mu.Lock()
	defer v.nat.mu.Unlock()
	for _, labels := range v.nat.byInterface {
		for _, value := range values {
			delete(labels, value.GetLabel())
		}
	}
}

var errNATOff = errors.New("NAT is off")
