// Package text is how commands write for people: tables that fit, without what terminals
// take for commands, and hints at what may have been meant.
package text
