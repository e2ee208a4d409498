package foreign

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"
	"sort"

	"github.com/contiv/contiv/internal/netlink/nlattr"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

type set struct {
	interval bool
	length   int // of keys
	exact    map[string]*element
	// limits are the sorted ends of intervals: elements, or nil at the end of one.
	limits []limit
	// boxes are elements of concatenations with a range for each part.
	boxes []box
	// others is the catch-all element ("*"), or nil.
	others *element
}

type element struct {
	data    []byte
	verdict *expr.Verdict
}

type limit struct {
	key []byte
	at  *element
}

type box struct {
	from, to []byte
	at       *element
}

func newSet(interval bool, list []nftables.SetElement) *set {
	s := &set{interval: interval, exact: make(map[string]*element, len(list))}
	for _, e := range list {
		s.length = max(s.length, len(e.Key))
		at := &element{data: e.Val, verdict: verdictOf(e.Val)}
		switch {
		case len(e.Key) == 0:
			s.others = at
		case len(e.KeyEnd) > 0:
			s.boxes = append(s.boxes, box{e.Key, e.KeyEnd, at})
		case interval && e.IntervalEnd:
			s.limits = append(s.limits, limit{key: e.Key})
		case interval:
			s.limits = append(s.limits, limit{e.Key, at})
		default:
			s.exact[string(e.Key)] = at
		}
	}
	slices.SortFunc(s.limits, func(a, b limit) int { // an interval that begins where another ends counts
		if order := bytes.Compare(a.key, b.key); order != 0 || (a.at == nil) == (b.at == nil) {
			return order
		}
		if a.at == nil {
			return -1
		}
		return 1
	})
	return s
}

func (s *set) elements() iter.Seq[*element] {
	return func(yield func(*element) bool) {
		for _, at := range s.exact {
			if !yield(at) {
				return
			}
		}
		for _, l := range s.limits {
			if l.at != nil && !yield(l.at) {
				return
			}
		}
		for _, b := range s.boxes {
			if !yield(b.at) {
				return
			}
		}
		if s.others != nil {
			yield(s.others)
		}
	}
}

func verdictOf(data []byte) *expr.Verdict {
	var v *expr.Verdict
	for attr, value := range nlattr.All(data) {
		switch {
		case attr == unix.NFTA_VERDICT_CODE && len(value) == 4:
			v = &expr.Verdict{Kind: expr.VerdictKind(int32(binary.BigEndian.Uint32(value)))}
		case attr == unix.NFTA_VERDICT_CHAIN && v != nil:
			v.Chain = unix.ByteSliceToString(value)
		}
	}
	return v
}

// find returns the element for a key. parts are the offsets of the parts of the key.
func (s *set) find(key []byte, parts []int) *element {
	if at := s.exact[string(key)]; at != nil {
		return at
	}
	if i := sort.Search(len(s.limits), func(i int) bool { return bytes.Compare(s.limits[i].key, key) > 0 }); i > 0 && s.limits[i-1].at != nil {
		return s.limits[i-1].at
	}
	for _, b := range s.boxes {
		if b.contains(key, parts) {
			return b.at
		}
	}
	return s.others
}

func (b box) contains(key []byte, parts []int) bool {
	if len(b.from) != len(key) || len(b.to) != len(key) {
		return false
	}
	for i, begin := range parts {
		end := len(key)
		if i+1 < len(parts) {
			end = parts[i+1]
		}
		if bytes.Compare(key[begin:end], b.from[begin:end]) < 0 || bytes.Compare(key[begin:end], b.to[begin:end]) > 0 {
			return false
		}
	}
	return true
}

// maxSets limits the sets that are read. The kernel searches each linearly in its table: 10,000
// sets take seconds.
const maxSets = 500

// sets reads the sets of a ruleset.
type sets struct {
	conn   *nftables.Conn
	tables map[string]map[string]*nftables.Set
	read   map[string]*set
}

// get returns the set of a table, or nil if unknown. Sets of kube-proxy are as large as the cluster
// and not read.
func (s *sets) get(t *nftables.Table, name string) *set {
	if ofKubeProxy(t.Name, "") {
		return nil
	}
	at := key(t, name)
	if known, done := s.read[at]; done {
		return known
	}
	all, done := s.tables[key(t, "")]
	if !done {
		list, _ := s.conn.GetSets(t) // unreadable sets are unknown
		all = make(map[string]*nftables.Set, len(list))
		for _, one := range list {
			one.Table = t
			all[one.Name] = one
		}
		s.tables[key(t, "")] = all
	}
	s.read[at] = nil
	if len(s.read) > maxSets {
		return nil
	}
	if one := all[name]; one != nil && !one.Dynamic {
		if elements, err := s.conn.GetSetElements(one); err == nil {
			s.read[at] = newSet(one.Interval, elements)
		}
	}
	return s.read[at]
}

// lookup evaluates a lookup in a set or a map.
func (w *walk) lookup(e *expr.Lookup, registers *registers) (result match, end *expr.Verdict) {
	toVerdict := e.IsDestRegSet && e.DestRegister == unix.NFT_REG_VERDICT
	s := w.ruleset.lookups[e]
	var key []byte
	var parts []int
	if s != nil {
		if s.interval {
			registers.order(e.SourceRegister)
		}
		key, parts = registers.concatenated(e.SourceRegister, s.length)
	}
	known := key != nil || s != nil && s.length == 0 // an empty set contains no key, known or not
	switch {
	case !known && toVerdict:
		return unknown, &expr.Verdict{Kind: verdictUnknown}
	case !known:
		if e.IsDestRegSet {
			registers.set(e.DestRegister, nil, false)
		}
		return unknown, nil
	}
	at := s.find(key, parts)
	if (at != nil) == e.Invert {
		return no, nil
	}
	switch {
	case toVerdict && at.verdict == nil:
		return unknown, &expr.Verdict{Kind: verdictUnknown}
	case toVerdict:
		return yes, at.verdict
	case e.IsDestRegSet:
		registers.set(e.DestRegister, at.data, false)
	}
	return yes, nil
}
