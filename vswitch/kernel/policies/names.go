package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

const (
	tableName     = "contiv-policy"
	qualifiedName = "inet " + tableName // as events have it

	addressSet  = "a" // and 4- or 6-, and the name
	endpointSet = "e"
	listChain   = "list/"
	rulesChain  = "rules/"
	inChain     = "in/"
	outChain    = "out/"
)

// ident writes a name as a part of the name of an object: what people recognise of
// it, and a hash.
func ident(name string) string {
	var b strings.Builder
	for _, c := range []byte(name[:min(len(name), 60)]) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			b.WriteByte(c)
		default:
			b.WriteByte('-')
		}
	}
	return b.String() + "-" + hash(name)
}

// setIdent writes the name of a set as a part of the names of objects. The kernel compares names of sets
// one after the other, so they are short: most are as they are.
func setIdent(name string) string {
	if len(name) <= 40 && consistsOf(name, digits+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") && !isHashed(name) {
		return name
	}
	return ident(name)
}

const digits = "0123456789"

// isHashed reports whether a name ends as those that ident writes.
func isHashed(name string) bool {
	const ending = 1 + 16 // a dash, and the hash
	if len(name) < ending {
		return false
	}
	last := name[len(name)-ending:]
	return last[0] == '-' && consistsOf(last[1:], digits+"abcdef")
}

// consistsOf is no regular expression: the names of all peers of a pod are looked at when a policy of it changes.
func consistsOf(text, chars string) bool { return strings.TrimLeft(text, chars) == "" }

// identOf writes a name, by ident or setIdent, unless it stands for an object.
func identOf(name string, write func(name string) string) string {
	if id, ok := strings.CutPrefix(name, unknown); ok {
		return id
	}
	return write(name)
}

// listIdent writes the name of an access list. Lists of the two directions are apart, so that a
// subject which names one of the other direction has none, and does not lead in a circle.
func listIdent(direction contiv_filter.AccessList_Direction, name string) string {
	if direction == contiv_filter.AccessList_EGRESS && !strings.HasPrefix(name, unknown) {
		return "out-" + ident(name)
	}
	return identOf(name, ident)
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// setsOf are the names of the two sets, for IPv4 and IPv6, of a kind.
func setsOf(kind, id string) []string { return []string{kind + "4-" + id, kind + "6-" + id} }

// line is a rule; it is known by its comment.
type line struct{ text, comment string }

func lines(texts ...string) []line {
	list := make([]line, len(texts))
	for i, text := range texts {
		list[i] = line{text, hash(text)}
	}
	return list
}

func comments(lines []line) []string {
	list := make([]string, len(lines))
	for i, l := range lines {
		list[i] = l.comment
	}
	return list
}
