// Package manifests is a source of Kubernetes objects: a directory of ordinary
// manifests.
//
//	DIR/*.yaml, *.yml, *.json                                    ksr.Reflector
//	   │                                                               ▲
//	   ▼                                                               │ Changes
//	 dirwatch ──files──> parse ──objects per file──> merge ──diff──────┘
//	                       │ a file with a mistake keeps its former objects
//	                       └──> Problems (file, document, reason)
//
// A file counts as a whole: all of its documents are taken, or, if one of them
// has a mistake, none.
package manifests
