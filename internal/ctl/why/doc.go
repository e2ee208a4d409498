// Package why explains why packets do or do not get from one place to another.
//
//	words ──Resolve──> Place, Place ──Ask (agents of both ends)──> path.Report… ──Answer──> Verdict, Findings ──Write
package why
