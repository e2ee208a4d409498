// Package teib says where the peers of multipoint tunnels are.
package teib
