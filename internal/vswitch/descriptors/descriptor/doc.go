// Package descriptor contains building blocks for the descriptors of the vpp.* models: callbacks
// around methods of ports, comparison and validation of texts, references to allocated addresses,
// and models whose port a vswitch may lack. It is independent of the models.
package descriptor
