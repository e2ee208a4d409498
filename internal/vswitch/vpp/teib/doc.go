// Package teib maps the peers of multipoint tunnels to their underlay addresses.
package teib
