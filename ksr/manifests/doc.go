// Package manifests is a source of Kubernetes objects: a directory of ordinary
// manifests.
//
//	DIR/*.yaml, *.yml, *.json                                           ksr.Reflector
//	   │ fsnotify, and a re-scan now and then                                 ▲
//	   ▼                                                                      │ Changes
//	 settle ──> scan ──changed files──> parse ──objects per file──> merge ──diff
//	                                      │ a file with a mistake keeps its former objects
//	                                      └──> Problems (file, document, reason)
//
// A file counts as a whole: all of its documents are taken, or, if one of them
// has a mistake, none. To change a large file use a temporary name and rename it.
package manifests
