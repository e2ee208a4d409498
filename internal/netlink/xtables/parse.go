package xtables

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

var errShort = errors.New("the kernel's answer is shorter than it says")

var baseNames = [hooks]string{"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"}

// parse decodes the entries of a table. Chains follow each other: user chains begin with an entry
// with their name, and all end with their policy or a return.
func parse(f Family, table string, info, entries []byte) (*Table, error) {
	valid := binary.NativeEndian.Uint32(info[tableNameSize:])
	at := func(index int) int { return int(binary.NativeEndian.Uint32(info[tableNameSize+4+4*index:])) }
	begins, policies := map[int]uint32{}, map[int]bool{}
	for hook := range uint32(hooks) {
		if valid&(1<<hook) != 0 {
			begins[at(int(hook))] = hook
			policies[at(hooks+int(hook))] = true
		}
	}
	t := &Table{Name: table}
	named := map[int]string{} // chains by the offset of their first rule
	jumps := map[*Rule]int{}
	for offset := 0; offset < len(entries); {
		r, head, jump, next, err := f.rule(entries[offset:])
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		if hook, is := begins[offset]; is {
			t.Chains = append(t.Chains, Chain{Name: baseNames[hook], Base: true, Hook: hook})
			named[offset] = baseNames[hook]
		}
		if head != "" { // the last one, which ends the table, has no rules
			t.Chains = append(t.Chains, Chain{Name: head})
			named[offset+next] = head
		} else if len(t.Chains) == 0 {
			return nil, fmt.Errorf("table %s: its first rule is in no chain", table)
		} else if c := &t.Chains[len(t.Chains)-1]; policies[offset] {
			c.Drop = r.Target.Name == "" && r.Verdict == Drop
		} else {
			c.Rules = append(c.Rules, r)
			jumps[r] = jump
		}
		offset += next
	}
	for r, offset := range jumps {
		if r.Verdict == Jump || r.Verdict == Goto {
			r.Chain = named[offset]
		}
	}
	return t, nil
}

// rule decodes the first entry in data: a rule, which may jump to an offset, or the head of a
// chain. next is the size of the entry.
func (f Family) rule(data []byte) (r *Rule, head string, jump, next int, err error) {
	if len(data) < f.entry {
		return nil, "", 0, 0, errShort
	}
	target := int(binary.NativeEndian.Uint16(data[f.extras+4:]))
	next = int(binary.NativeEndian.Uint16(data[f.extras+6:]))
	if target < f.entry || next < target+extensionHead || next > len(data) {
		return nil, "", 0, 0, errShort
	}
	r = &Rule{}
	ip := data
	for _, part := range []*[]byte{&r.Src, &r.Dst, &r.SrcMask, &r.DstMask} {
		*part, ip = ip[:f.address], ip[f.address:]
	}
	const name = 16 // IFNAMSIZ
	r.In, r.Out = masked(ip[:name], ip[2*name:3*name]), masked(ip[name:2*name], ip[3*name:4*name])
	ip = ip[4*name:]
	r.Protocol = uint8(binary.NativeEndian.Uint16(ip))
	flags, inverted := ip[2], ip[3]
	if f == IPv6 { // tos precedes the flags
		flags, inverted = ip[3], ip[4]
	}
	r.Inverted = inverted
	r.Fragments = f == IPv4 && flags&1 != 0
	for rest := data[f.entry:target]; len(rest) > 0; {
		match, size, err := extension(rest)
		if err != nil {
			return nil, "", 0, 0, err
		}
		r.Matches = append(r.Matches, match)
		rest = rest[size:]
	}
	if r.Target, _, err = extension(data[target:next]); err != nil {
		return nil, "", 0, 0, err
	}
	switch r.Target.Name {
	case "ERROR":
		return nil, text(r.Target.Data), 0, next, nil
	case "":
		if len(r.Target.Data) < 4 {
			return nil, "", 0, 0, errShort
		}
		switch number := int32(binary.NativeEndian.Uint32(r.Target.Data)); {
		case number == verdictReturn:
			r.Verdict = Return
		case number == -1:
			r.Verdict = Drop
		case number < 0:
			r.Verdict = Accept
		case flags&f.gotoFlag != 0:
			r.Verdict, jump = Goto, int(number)
		default:
			r.Verdict, jump = Jump, int(number)
		}
	}
	return r, "", jump, next, nil
}

func extension(data []byte) (x Extension, size int, err error) {
	if len(data) < extensionHead {
		return x, 0, errShort
	}
	if size = int(binary.NativeEndian.Uint16(data)); size < extensionHead || size > len(data) {
		return x, 0, errShort
	}
	return Extension{Name: text(data[2 : extensionHead-1]), Revision: data[extensionHead-1], Data: data[extensionHead:size]}, size, nil
}

// masked returns the significant bytes of a device name.
func masked(name, mask []byte) string {
	if end := bytes.IndexByte(mask, 0); end >= 0 {
		name = name[:end]
	}
	return string(name)
}

// text returns the text before the first zero byte.
func text(data []byte) string {
	before, _, _ := bytes.Cut(data, []byte{0})
	return string(before)
}
