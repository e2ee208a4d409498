// Package status judges the nodes by the reports of their agents and by a comparison between nodes.
//
//	/readiness?verbose, configdir ──Ask──> Probe ──Compare (versions)──> Write, Worst
package status
