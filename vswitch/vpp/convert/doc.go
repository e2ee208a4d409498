// Package convert writes addresses, prefixes and paths of northbound values as VPP's API
// has them, and the other way around.
package convert
