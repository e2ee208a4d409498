// Package configdir is an external source: a watched directory of YAML files with northbound
// values, one document per value (see models/manifest).
//
//	DIR/*.yaml ──dirwatch──> parse ──> merge by key ──diff──> ExternalConfigChange ──> controller
//	               │
//	               └── the last text of each file without mistakes is kept in the node's own
//	                   store: a mistake takes nothing away, not even over a restart
//
// A file is applied completely in one transaction, or not at all. If several files contain the same
// key, the last file by name wins.
package configdir
