// Package policyrules defines the semantics of the values of contiv.filter: which values are valid, and
// which connections they permit. Drivers are tested against it, and it explains verdicts to users.
// It configures nothing.
package policyrules
