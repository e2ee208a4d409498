package ownership

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
	MaxTag  = 63
)

// TagOf returns the tag of what has the name: of names that are too long a hash, and as
// much of the name as fits.
func TagOf(name string) string {
	if IsLongTag(name) {
		return name // listed before, by nothing but its tag
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

// IsOwnTag reports whether what has the tag is ours.
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
