// Package fibpath represents paths to next hops, used by routes and cross-connects.
package fibpath
