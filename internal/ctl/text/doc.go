// Package text formats the output of commands for people: tables that fit the terminal, text without
// escape sequences, and suggestions for mistyped words.
package text
