// Package convert converts addresses, prefixes and paths between northbound values and VPP's API.
package convert
