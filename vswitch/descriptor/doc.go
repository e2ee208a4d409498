// Package descriptor is what descriptors of the vpp.* models are made of: callbacks
// around methods of ports, comparison and validation of texts, references to allocated
// addresses, and models whose port a vswitch may lack. It knows no model.
package descriptor
