package kernel

import "net/netip"

func mustAddr(text string) netip.Addr { return netip.MustParseAddr(text) }

func mustPrefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
