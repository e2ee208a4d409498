// Package descriptor has the building blocks of the descriptors of the vpp.* models: callbacks
// around methods of ports, comparison and validation of texts, references to allocated addresses,
// and models whose port a vswitch may lack. It knows no model.
package descriptor
