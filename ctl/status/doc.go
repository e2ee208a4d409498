// Package status is the verdict of contivctl on nodes: what their agents say of themselves, and
// what shows only when they are compared.
//
//	/readiness?verbose, configdir ──Ask──> Probe ──Compare (versions)──> Write, Worst
package status
