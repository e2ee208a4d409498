package vpp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Access lists and mappings of NAT are ours if their tags begin with ownTag; the name
// follows. What others make has other tags, or none, and is left alone.
const (
	ownTag  = "contiv/"
	longTag = "contiv#"
	maxTag  = 63
)

// tagOf returns the tag of what has the name: of names that are too long a hash, and as
// much of the name as fits.
func tagOf(name string) string {
	if isLongTag(name) {
		return name // listed before, by nothing but its tag
	}
	if tag := ownTag + name; len(tag) <= maxTag {
		return tag
	}
	return hashTag(name)
}

func hashTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	tag := longTag + hex.EncodeToString(sum[:8]) + "/"
	return tag + strings.ToValidUTF8(name[:maxTag-len(tag)], "")
}

func isLongTag(text string) bool { return len(text) > maxTag-4 && strings.HasPrefix(text, longTag) }

// isOwnTag tells if what has the tag is ours.
func isOwnTag(tag string) bool { return strings.HasPrefix(tag, ownTag) || isLongTag(tag) }

// tagNames knows the names behind tags: those that fit, and those that are expected. What
// nobody can name has its tag as its name.
type tagNames map[string]string

func namesOf[V any](expected []V, name func(V) string) tagNames {
	names := tagNames{}
	for _, v := range expected {
		names[tagOf(name(v))] = name(v)
	}
	return names
}

func (n tagNames) name(tag string) string {
	if name, ok := n[tag]; ok {
		return name
	}
	return strings.TrimPrefix(tag, ownTag)
}

// detailTag is ownTag of mappings with something that VPP does not tell: the source that
// twice-NAT uses, or for how long clients stay with a local address. That and a slash
// follow.
const detailTag = "contiv@"

// dnatTag is the tag of a mapping of a DNAT value.
func dnatTag(label, detail string) string {
	if detail == "" || isLongTag(label) {
		return tagOf(label)
	}
	if tag := detailTag + detail + "/" + label; len(tag) <= maxTag {
		return tag
	}
	return hashTag(detail + "/" + label)
}

func isDNATTag(tag string) bool { return isOwnTag(tag) || strings.HasPrefix(tag, detailTag) }

// dnatLabel returns the label, and the detail if the tag tells it.
func (n tagNames) dnatLabel(tag string) (label, detail string) {
	if label, ok := n[tag]; ok {
		return label, ""
	}
	rest, ok := strings.CutPrefix(tag, detailTag)
	if !ok {
		return n.name(tag), ""
	}
	detail, label, _ = strings.Cut(rest, "/")
	return label, detail
}
