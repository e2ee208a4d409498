package models

// Limits of SourceRanges, which restrict the clients of Services. Those of Services are in package
// internal/plugins/service/processor.
const (
	// MaxRestrictedFrontends limits its frontends: each interface may have an entry for each of its
	// addresses.
	MaxRestrictedFrontends = 1024
	// MaxRestrictingRules limits the frontends plus their sources.
	MaxRestrictingRules = 16384
)
