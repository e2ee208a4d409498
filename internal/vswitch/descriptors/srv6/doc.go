// Package srv6 contains the descriptors of segment routing: local SIDs, policies, steering and
// source addresses.
package srv6
