// Package routes configures routes and L3 cross-connects.
//
// Our routes have protocol 121. The paths to one destination with one preference are one kernel
// route, and a value each.
package routes
