package models

// These limits bound SourceRanges, which restrict the clients of Services. Package
// internal/plugins/service/processor bounds the Services themselves.
const (
	// MaxRestrictedFrontends limits its frontends: each interface may have an entry for each of its
	// addresses.
	MaxRestrictedFrontends = 1024
	// MaxRestrictingRules limits the frontends plus their sources.
	MaxRestrictingRules = 16384
)
