// Package srv6 is segment routing: local SIDs, policies, steering and the source of
// encapsulated packets, by nexthop objects and routes of protocol 124.
package srv6
