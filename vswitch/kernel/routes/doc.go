// Package routes makes routes and L3 cross-connects: whatever decides by addresses where
// a packet goes.
//
// Routes of ours have protocol 121. Paths to one destination with one preference are one
// route of the kernel, and a value each.
package routes
