package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/contiv/contiv/version"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the manual pages of all commands.
func manCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands into a directory, such as /usr/local/share/man/man1",
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return fmt.Errorf("an argument is missing: usage: %s DIR", cmd.CommandPath())
			case 1:
				return nil
			}
			return fmt.Errorf("arguments %q: usage: %s DIR", args, cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // no page differs from day to day
			header := &doc.GenManHeader{Section: "1", Source: "Contiv " + version.Version, Manual: "Contiv"}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("manual pages are not written: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], root.Name()+"*.1"))
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%d manual pages are in %s\n", len(pages), args[0])
			return nil
		},
	}
}
