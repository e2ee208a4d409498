// Package srv6 configures segment routing: local SIDs, policies, steering and the source of
// encapsulated packets, with nexthop objects and routes of protocol 124.
package srv6
