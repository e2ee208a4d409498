// Package dirwatch reads the YAML and JSON files of a directory, and again whenever
// they change.
//
//	DIR/*.yaml, *.yml, *.json
//	   │ fsnotify, and a re-scan now and then
//	   ▼
//	 settle ──> scan ──changed files──> parse ──> Snapshot ──> report
//	                                      │
//	                                      └── a file with a mistake keeps its former content
//
// A file counts as a whole. To change a large one, use a temporary name and rename it.
package dirwatch
