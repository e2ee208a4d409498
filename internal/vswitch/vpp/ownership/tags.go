package ownership

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Access lists and NAT mappings are ours if their tags start with ownTag; the name follows. Foreign
// objects have other tags, or none, and are left alone.
const (
	ownTag  = "contiv/"
	longTag = "contiv#"
	MaxTag  = 63
)

// TagOf returns the tag of a name. A long name is truncated and gets a hash.
func TagOf(name string) string {
	if IsLongTag(name) {
		return name // listed earlier, known by its tag only
	}
	if tag := ownTag + name; len(tag) <= MaxTag {
		return tag
	}
	return HashTag(name)
}

func HashTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	tag := longTag + hex.EncodeToString(sum[:8]) + "/"
	return tag + strings.ToValidUTF8(name[:MaxTag-len(tag)], "")
}

func IsLongTag(text string) bool { return len(text) > MaxTag-4 && strings.HasPrefix(text, longTag) }

// IsOwnTag reports whether a tag is ours.
func IsOwnTag(tag string) bool { return strings.HasPrefix(tag, ownTag) || IsLongTag(tag) }

// TagNames maps tags to names: names that fit into a tag, and names of expected values. An unknown
// tag is its own name.
type TagNames map[string]string

func NamesOf[V any](expected []V, name func(V) string) TagNames {
	names := TagNames{}
	for _, v := range expected {
		names[TagOf(name(v))] = name(v)
	}
	return names
}

func (n TagNames) Name(tag string) string {
	if name, ok := n[tag]; ok {
		return name
	}
	return strings.TrimPrefix(tag, ownTag)
}
