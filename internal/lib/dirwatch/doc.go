// Package dirwatch reads the YAML and JSON files of a directory, and reads them again when they
// change.
//
//	DIR/*.yaml, *.yml, *.json
//	   │ fsnotify, and periodic scans
//	   ▼
//	 settle ──> scan ──changed files──> parse ──> Snapshot ──> report
//	                                      │
//	                                      └── a file with an error keeps its previous content
//
// A file is read as a whole. To change a large one, write a temporary file and rename it.
package dirwatch
