// Package config reads configuration files strictly: what is not understood is
// an error that says where it is and what was probably meant.
//
//	file (YAML or JSON) ──Load──> check every key and value against the Go type ──> struct, defaults kept
//	                                   └─> line 3: unknown key "delayRetri": did you mean "delayRetry"?
//
// The struct given to Load holds the defaults and names its keys with json
// tags. Environment and flags are applied by the caller afterwards.
package config
