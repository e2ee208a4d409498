// Package manifest reads and writes files with northbound values: YAML (or JSON), one document per
// value.
//
//	key: config/vpp/v2/interfaces/loop1
//	value:
//	  name: loop1
//	  type: SOFTWARE_LOOPBACK
//	  ip_addresses: [10.9.9.9/32]
//	---
//	model: vpp.route
//	value:
//	  dst_network: 10.8.0.0/16
//	  next_hop_addr: 10.9.9.1
//
// A document has the key of its value, or the model, from which the key is derived. Fields are
// protojson, in lowerCamelCase or with underscores.
package manifest
