// Package wireguard is the peers of WireGuard tunnels, by VPP's plugin wireguard. The tunnels
// themselves are interfaces.
package wireguard
