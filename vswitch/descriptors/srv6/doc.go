// Package srv6 has the descriptors of segment routing: local SIDs, policies, steering and
// the addresses that packets are sent from.
package srv6
