// Package fibpath is a way to a next hop, as routes and cross-connects have it.
package fibpath
