// Package version names the build. The Makefile sets Version by -ldflags.
package version

// Version is the output of git describe at build time.
var Version = "unknown"
