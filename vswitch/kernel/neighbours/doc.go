// Package neighbours makes permanent neighbours, and those that the node answers for
// (proxy ARP). Both have protocol 121.
package neighbours
