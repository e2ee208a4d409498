// Package house checks the rules of the repository that no compiler checks: in
// which direction imports may point (docs/architecture.md, "The house"), and that
// links between pages lead somewhere.
package house
