package nat

import (
	"strings"

	"github.com/contiv/contiv/internal/vswitch/vpp/ownership"

	vpp_nat "github.com/contiv/contiv/api/ligato/vpp/nat"
)

// detailTag starts tags with details that VPP does not report: the source of twice-NAT, or the
// affinity. The detail and a slash follow.
const detailTag = "contiv@"

// dnatTag returns the tag of a DNAT value's mapping.
func dnatTag(label, detail string) string {
	if detail == "" || ownership.IsLongTag(label) {
		return ownership.TagOf(label)
	}
	if tag := detailTag + detail + "/" + label; len(tag) <= ownership.MaxTag {
		return tag
	}
	return ownership.HashTag(detail + "/" + label)
}

func isDNATTag(tag string) bool { return ownership.IsOwnTag(tag) || strings.HasPrefix(tag, detailTag) }

// dnatLabel returns the label, and the tag's detail if it has one.
func dnatLabel(n ownership.TagNames, tag string) (label, detail string) {
	if label, ok := n[tag]; ok {
		return label, ""
	}
	rest, ok := strings.CutPrefix(tag, detailTag)
	if !ok {
		return n.Name(tag), ""
	}
	detail, label, _ = strings.Cut(rest, "/")
	return label, detail
}

// labelOf is dnatLabel without the detail.
func labelOf(n ownership.TagNames, tag string) string {
	label, _ := dnatLabel(n, tag)
	return label
}

// namesOfDNAT includes the labels of tags with details, which may be hashed.
func namesOfDNAT(values []*vpp_nat.DNat44) ownership.TagNames {
	names := ownership.NamesOf(values, (*vpp_nat.DNat44).GetLabel)
	for _, value := range values {
		for _, m := range value.GetStMappings() {
			if mapping, err := staticMapping(value.GetLabel(), m); err == nil && ownership.IsLongTag(mapping.tag) {
				names[mapping.tag] = value.GetLabel()
			}
		}
	}
	return names
}
