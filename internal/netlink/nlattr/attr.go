// Package nlattr walks the attributes of netlink messages.
package nlattr

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// All yields the netlink attributes in data, up to the first malformed one.
func All(data []byte) func(yield func(attr int, value []byte) bool) {
	return func(yield func(int, []byte) bool) {
		for len(data) >= unix.SizeofRtAttr {
			length := int(binary.NativeEndian.Uint16(data[0:2]))
			typ := int(binary.NativeEndian.Uint16(data[2:4])) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if length < unix.SizeofRtAttr || length > len(data) {
				return
			}
			if !yield(typ, data[unix.SizeofRtAttr:length:length]) {
				return
			}
			data = data[min(len(data), (length+3)&^3):]
		}
	}
}
