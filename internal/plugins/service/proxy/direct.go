package proxy

import (
	"iter"
	"net/netip"

	"github.com/contiv/contiv/internal/plugins/service/processor"
)

// DirectEndpoint is a local endpoint that sees the addresses of external clients.
type DirectEndpoint struct {
	Protocol processor.Protocol
	Addr     netip.AddrPort
}

// DirectEndpoints returns the local endpoints that see the addresses of external clients.
func (p *Proxy) DirectEndpoints() iter.Seq[DirectEndpoint] {
	return func(yield func(DirectEndpoint) bool) {
		if p == nil {
			return
		}
		for _, endpoints := range p.direct {
			for _, e := range endpoints {
				if !yield(DirectEndpoint{e.Protocol, e.Addr}) {
					return
				}
			}
		}
	}
}
