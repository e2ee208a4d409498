// Package delta compares what should exist with what does.
//
//	SetDesired ──> ┌─────────┐
//	               │ Tracker │ ── Plan ──> steps in order ── Apply ──> do(step)
//	SetActual  ──> └─────────┘ <────────── a step that succeeded ────────┘
//	 (or Resync)
//
// A [Tracker] keeps both sides and knows at any time, without comparing everything
// again, which keys differ. A [Plan] lists the steps that make the actual side equal
// to the desired one, in an order that the caller chooses. [Tracker.Apply] executes
// them: a step that fails stays pending and does not keep the others from being
// tried.
//
// Callers that hold both sides anyway need no Tracker: [Between] compares two maps,
// [Sorted] two sorted slices.
//
// Values of this package are not safe for concurrent use.
package delta
