package pathexplain

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Receiving states of sockets in /proc/net.
const (
	listening   = "0A" // TCP
	unconnected = "07" // UDP
)

// listeners returns the addresses at which processes of the thread's network namespace receive on a
// port; the unspecified address means all.
func listeners(protocol string, port uint16) (addrs []netip.Addr, err error) {
	state := listening
	if protocol == "udp" {
		state = unconnected
	}
	for _, version := range []string{"", "6"} {
		file, err := os.Open("/proc/thread-self/net/" + protocol + version)
		switch {
		case os.IsNotExist(err) && version != "": // a kernel without IPv6
			continue
		case err != nil:
			return nil, err
		}
		defer file.Close()
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			words := strings.Fields(lines.Text())
			if len(words) < 4 || words[3] != state {
				continue
			}
			if addr, ok := parseLocal(words[1]); ok && addr.Port() == port {
				addrs = append(addrs, addr.Addr())
			}
		}
		if err := lines.Err(); err != nil {
			return nil, err
		}
	}
	return addrs, nil
}

// parseLocal parses an address from /proc/net: 4-byte words in host byte order, and the port.
func parseLocal(text string) (addr netip.AddrPort, ok bool) {
	host, number, _ := strings.Cut(text, ":")
	port, err := strconv.ParseUint(number, 16, 16)
	raw, hexErr := hex.DecodeString(host)
	if err != nil || hexErr != nil || len(raw)%4 != 0 {
		return addr, false
	}
	var ip []byte
	for i := 0; i < len(raw); i += 4 {
		ip = binary.NativeEndian.AppendUint32(ip, binary.BigEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), ok
}

// unheard returns a finding if no process of the thread's network namespace receives at a port of
// an address; "" if one does, or if that is unknown.
func unheard(to netip.Addr, protocol string, port uint16) string {
	addrs, err := listeners(protocol, port)
	if err != nil || slices.ContainsFunc(addrs, func(a netip.Addr) bool { return a == to || a.IsUnspecified() && (a.Is6() || to.Is4()) }) {
		return ""
	}
	if len(addrs) == 0 {
		return fmt.Sprintf("no process listens on port %d/%s", port, protocol)
	}
	slices.SortFunc(addrs, netip.Addr.Compare)
	var names []string
	for _, a := range slices.Compact(addrs) {
		names = append(names, a.String())
	}
	return fmt.Sprintf("the process on port %d/%s listens only on %s, not on %v: make it listen on 0.0.0.0 or ::", port, protocol, strings.Join(names, ", "), to)
}
