// Package delta compares desired with actual state.
//
//	desired ─┐
//	         ├─ Between ──> Plan: steps that make the actual side equal to the desired one
//	actual  ─┘                └─ Sort: in an order that the caller chooses
//
// [Between] compares two maps, [BetweenSets] two sets, [Sorted] two sorted slices.
package delta
