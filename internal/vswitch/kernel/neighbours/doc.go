// Package neighbours configures permanent neighbours and proxy ARP entries, both with protocol 121.
package neighbours
