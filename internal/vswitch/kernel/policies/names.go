package policies

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	contiv_filter "github.com/contiv/contiv/api/contiv/filter"
)

const (
	tableName     = "contiv-policy"
	qualifiedName = "inet " + tableName // as in events

	addressSet  = "a" // followed by 4- or 6-, and the name
	endpointSet = "e"
	listChain   = "list/"
	rulesChain  = "rules/"
	inChain     = "in/"
	outChain    = "out/"
)

// ident escapes a name for use in an object's name: a readable part and a hash.
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

// setIdent escapes the name of a set. The kernel compares set names one by one, so they are short:
// most are unchanged.
func setIdent(name string) string {
	if len(name) <= 40 && consistsOf(name, digits+"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") && !isHashed(name) {
		return name
	}
	return ident(name)
}

const digits = "0123456789"

// isHashed reports whether a name ends like a name from ident.
func isHashed(name string) bool {
	const ending = 1 + 16
	if len(name) < ending {
		return false
	}
	last := name[len(name)-ending:]
	return last[0] == '-' && consistsOf(last[1:], digits+"abcdef")
}

// consistsOf avoids a regular expression, because a policy change checks the names of all peers.
func consistsOf(text, chars string) bool { return strings.TrimLeft(text, chars) == "" }

// identOf escapes a name with write, unless it represents an object.
func identOf(name string, write func(name string) string) string {
	if id, ok := strings.CutPrefix(name, unknown); ok {
		return id
	}
	return write(name)
}

// listIdent escapes the name of an access list. The two directions have separate names, so a
// subject with a list of the other direction finds none, and no jump forms a loop.
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

func setsOf(kind, id string) []string { return []string{kind + "4-" + id, kind + "6-" + id} }

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
