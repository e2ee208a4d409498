// Package routes implements vswitch.Routes by the routes of VPP's FIB with the source "API". A FIB
// entry has all paths to a destination; each path is a separate northbound route.
package routes
