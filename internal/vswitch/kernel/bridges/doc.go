// Package bridges implements bridge domains and their L2 FIB with Linux bridges.
package bridges
