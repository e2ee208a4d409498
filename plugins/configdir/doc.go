// Package configdir is an external source: a directory of YAML files with northbound
// values, one document per value (see models/manifest), watched.
//
//	DIR/*.yaml ──dirwatch──> parse ──> merge by key ──diff──> ExternalConfigChange ──> controller
//	                │
//	                └── the last text of each file without mistakes is kept in the node's own
//	                    store: a mistake takes nothing away, not even over a restart
//
// It uses nothing of the controller but what any source may use: ExternalConfigSource,
// and an event. A file is applied whole, in one transaction, or not at all. If
// several files have a value of the same key, that in the last file counts, by name.
package configdir
