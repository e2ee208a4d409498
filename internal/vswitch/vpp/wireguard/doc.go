// Package wireguard drives the peers of WireGuard tunnels with VPP's plugin wireguard. The tunnels
// are interfaces.
package wireguard
