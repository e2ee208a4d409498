package kernel

import "net/netip"

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }
