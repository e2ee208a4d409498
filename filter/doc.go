// Package filter is what the values of contiv.filter mean: which are valid, and what
// they say about a connection. It is the reference that drivers are compared with,
// and what explains a verdict to people; it programs nothing.
package filter
