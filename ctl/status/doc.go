// Package status is the verdict of contivctl on nodes: the reports of their agents, and problems that
// show only when nodes are compared.
//
//	/readiness?verbose, configdir ──Ask──> Probe ──Compare (versions)──> Write, Worst
package status
