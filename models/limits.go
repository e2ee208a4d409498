package models

// What a SourceRanges can have at most.
const (
	// MaxRestrictedFrontends are its frontends: each interface may have an entry for each of its addresses.
	MaxRestrictedFrontends = 1024
	// MaxRestrictingRules are the sources of all its frontends together, and the frontends.
	MaxRestrictingRules = 16384
)
