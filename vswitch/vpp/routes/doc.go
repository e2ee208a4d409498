// Package routes is the routes of VPP's FIB with the source "API": the port vswitch.Routes.
// An entry of the FIB has all paths to a destination; each is a route of its own for us.
package routes
