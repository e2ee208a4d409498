package foreign

import "encoding/binary"

// registers holds the values that a rule has loaded; nil: unknown. Each of the 16 slots has 4
// bytes; a longer value is in its first slot.
type registers struct {
	values [16]value
	rule   int
}

type value struct {
	data []byte
	// number: in the machine's byte order
	number bool
	rule   int // that loaded it
	own    [16]byte
}

// next invalidates all values for the next rule.
func (r *registers) next() { r.rule++ }

// slot returns the slot of a register: registers 1 to 4 have 16 bytes, 8 and above have 4.
func (r *registers) slot(register uint32) *value {
	switch {
	case register >= 1 && register <= 4:
		return &r.values[(register-1)*4]
	case register >= 8 && register < 24:
		return &r.values[register-8]
	}
	return nil
}

func (r *registers) get(register uint32) []byte {
	if v := r.slot(register); v != nil && v.rule == r.rule {
		return v.data
	}
	return nil
}

func (r *registers) isNumber(register uint32) bool {
	v := r.slot(register)
	return v != nil && v.rule == r.rule && v.number
}

func (r *registers) set(register uint32, data []byte, number bool) {
	if v := r.slot(register); v != nil {
		v.data, v.number, v.rule = data, number, r.rule
	}
}

// masked sets a register to (from & mask) ^ xor.
func (r *registers) masked(to, from uint32, mask, xor []byte) {
	data, number := r.get(from), r.isNumber(from)
	if v := r.slot(to); v != nil && data != nil && len(mask) == len(data) && len(xor) == len(data) && len(data) <= len(v.own) {
		out := v.own[:len(data)]
		for i := range out {
			out[i] = data[i]&mask[i] ^ xor[i]
		}
		r.set(to, out, number)
		return
	}
	r.set(to, nil, false)
}

// order converts a number to network byte order. Rules do so before comparing order, but the
// library omits that expression.
func (r *registers) order(register uint32) {
	if data := r.get(register); data != nil && r.isNumber(register) && len(data) == 4 {
		r.set(register, binary.BigEndian.AppendUint32(nil, binary.NativeEndian.Uint32(data)), false)
	}
}

// concatenated returns a key of the length and the offsets of its parts, or nil if unknown. Each
// part fills whole slots.
func (r *registers) concatenated(register uint32, length int) (key []byte, parts []int) {
	if data := r.get(register); len(data) >= length && length > 0 {
		return data[:length], []int{0}
	}
	const width = 4
	for i := range r.values {
		if &r.values[i] != r.slot(register) {
			continue
		}
		for len(key) < length && i < len(r.values) {
			v := &r.values[i]
			if v.rule != r.rule || v.data == nil {
				return nil, nil
			}
			parts = append(parts, len(key))
			key = append(key, v.data...)
			for len(key)%width != 0 {
				key = append(key, 0)
			}
			i += (len(v.data) + width - 1) / width
		}
	}
	if len(key) != length {
		return nil, nil
	}
	return key, parts
}
