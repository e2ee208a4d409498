// Package unimplemented contains the descriptors of models without port in any vswitch. Values are
// validated, and are UNIMPLEMENTED with the reason from vswitch.Features.Lacks.
package unimplemented
