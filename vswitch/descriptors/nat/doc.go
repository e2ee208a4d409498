// Package nat has the descriptors of address translation: NAT44, NAT66, mappings of
// services for both IP versions, and what mappings know of the node.
package nat
