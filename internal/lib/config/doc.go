// Package config reads configuration files strictly: unknown keys are errors with the line and the
// nearest known key.
//
//	file (YAML or JSON) ──Load──> check every key and value against the Go type ──> struct, defaults kept
//	                                   └─> line 3: unknown key "delayRetri": did you mean "delayRetry"?
//
// The struct given to Load holds the defaults and names its keys with json tags. The caller applies
// environment and flags afterwards.
package config
