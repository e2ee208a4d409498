// Package unimplemented has the descriptors of models that no vswitch has a port for.
// Their values are validated, and are UNIMPLEMENTED with what vswitch.Features.Lacks says.
package unimplemented
