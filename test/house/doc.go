// Package house checks rules of the repository that no compiler checks: the direction of imports
// (docs/design/architecture.md, "The house"), and that links between pages are valid.
package house
