// Package manifest reads and writes files with northbound values, as people write
// them: YAML (or JSON), one document per value.
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
// A document names its value by the key, or by the model: then the key is made of
// the value. Fields are in the form of protojson, lowerCamelCase or with
// underscores.
package manifest
