package vpptest

import (
	"slices"

	"go.fd.io/govpp/api"
	"go.fd.io/govpp/binapi/wireguard"
)

// peerState holds the WireGuard peers by number; nil: free.
type peerState []*wireguard.WireguardPeer

func handleWireguardPeers() {
	interfaceDeleted = append(interfaceDeleted, func(c *call, i index) {
		for n, p := range c.peers {
			if p != nil && p.SwIfIndex == i {
				c.peers[n] = nil
			}
		}
	})
	on(func(c *call, req *wireguard.WireguardPeerAdd, reply *wireguard.WireguardPeerAddReply) api.VPPApiError {
		p := req.Peer
		switch {
		case !c.hasInterface(p.SwIfIndex):
			return api.INVALID_SW_IF_INDEX
		case len(p.AllowedIps) == 0:
			return api.INVALID_VALUE
		case slices.ContainsFunc(c.peers, func(o *wireguard.WireguardPeer) bool {
			return o != nil && o.SwIfIndex == p.SwIfIndex && slices.Equal(o.PublicKey, p.PublicKey)
		}):
			return api.ENTRY_ALREADY_EXISTS
		}
		p.PeerIndex, p.Flags = uint32(len(c.peers)), 0
		if free := slices.Index(c.peers, nil); free >= 0 {
			p.PeerIndex = uint32(free)
			c.peers[free] = &p
		} else {
			c.peers = append(c.peers, &p)
		}
		reply.PeerIndex = p.PeerIndex
		return 0
	})
	on(func(c *call, req *wireguard.WireguardPeerRemove, _ *wireguard.WireguardPeerRemoveReply) api.VPPApiError {
		if int(req.PeerIndex) >= len(c.peers) || c.peers[req.PeerIndex] == nil {
			return api.NO_SUCH_ENTRY
		}
		c.peers[req.PeerIndex] = nil
		return 0
	})
	onDump(func(c *call, req *wireguard.WireguardPeersDump, send func(*wireguard.WireguardPeersDetails)) {
		for i, p := range c.peers {
			if p != nil && (req.PeerIndex == ^uint32(0) || req.PeerIndex == uint32(i)) {
				send(&wireguard.WireguardPeersDetails{Peer: *p})
			}
		}
	})
}
