// Package hostile puts generated hostile values into everything that takes values, and
// checks the rule that one bad value fails alone:
//
//	a value that cannot be validated, read back, resolved or rendered is INVALID or
//	FAILED with the reason; it never fails the read-back of its kind, a resync, or
//	the agent.
//
// Values come from samples of each model: each field, found by reflection, is made empty,
// huge, negative, of another type, a path, NUL, an escape sequence, equal to that of
// another value. They are put together with values that are fine, and then come a
// resync, a restart and the removal.
//
// With HOSTILE_LONG=1 all values are put, without it up to 200 of each model.
package hostile
