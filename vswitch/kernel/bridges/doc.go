// Package bridges makes bridge domains of Linux bridges, and the entries of their L2 FIB.
package bridges
