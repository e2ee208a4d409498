package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/contiv/contiv/internal/ctl/flags"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand(out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages to a directory",
		Long:  "Write the manual pages of all commands to a directory, such as /usr/local/share/man/man1.",
		Args: func(cmd *cobra.Command, args []string) error {
			switch len(args) {
			case 0:
				return fmt.Errorf("missing argument: usage: %s DIR", cmd.CommandPath())
			case 1:
				return nil
			}
			return fmt.Errorf("too many arguments %q: usage: %s DIR", args, cmd.CommandPath())
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // keeps the pages reproducible
			pages, err := writePages(root, args[0])
			if err != nil {
				return fmt.Errorf("write manual pages: %w", err)
			}
			fmt.Fprintf(out, "Wrote %d manual pages to %s\n", pages, args[0])
			return nil
		},
	}
}

// writePages writes the manual pages of a command and its subcommands, and returns their number.
func writePages(cmd *cobra.Command, dir string) (pages int, err error) {
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && !sub.IsAdditionalHelpTopicCommand() {
			n, err := writePages(sub, dir)
			if err != nil {
				return 0, err
			}
			pages += n
		}
	}
	page, err := os.Create(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"))
	if err != nil {
		return 0, err
	}
	flags.ShowOnlyHonoured(cmd)
	header := &doc.GenManHeader{Section: "1", Source: "Contiv " + version.Version, Manual: "Contiv"}
	return pages + 1, errors.Join(doc.GenMan(cmd, header, page), page.Close())
}
