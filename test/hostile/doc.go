// Package hostile generates hostile values and checks that a bad value fails alone:
//
//	a value that cannot be validated, read back, resolved or rendered is INVALID or
//	FAILED with the reason; it never fails the read-back of its kind, a resync, or
//	the agent.
//
// Each value is a sample of a model in which one field, found by reflection, is empty, huge,
// negative, of another type, a path, NUL, an escape sequence, or equal to that of another value.
// The tests configure hostile values together with valid ones, resync, restart, and remove them.
//
// HOSTILE_LONG=1 uses all values, otherwise up to 200 per model.
package hostile
