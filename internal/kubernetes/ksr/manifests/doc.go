// Package manifests is a source of Kubernetes objects: a directory of manifests.
//
//	DIR/*.yaml, *.yml, *.json                                    ksr.Reflector
//	   │                                                               ▲
//	   ▼                                                               │ Changes
//	 dirwatch ──files──> parse ──objects per file──> merge ──diff──────┘
//	                       │ a file with a mistake keeps its former objects
//	                       └──> Problems (file, document, reason)
//
// A file is all or nothing: a mistake in one document rejects all of its documents.
package manifests
