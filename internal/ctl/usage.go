package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/contiv/contiv/internal/lib/config"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ErrReported is returned by commands that have already printed the failure. Only the exit code
// remains.
var ErrReported = errors.New("failed")

// exitError is an error with an exit code other than 1.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// Exit codes. 1 and 2 are also results of commands such as "status" and "why".
const (
	exitBroken  = 2 // a node
	exitUnknown = 2 // whether packets arrive
	exitUsage   = 3
)

// Misused marks a usage error.
func Misused(err error) error { return text.Mistake(err) }

// ExitCode returns the exit code for a command's error.
func ExitCode(err error) int {
	var exit *exitError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, text.ErrMistake), target.IsNotFound(err):
		return exitUsage
	case errors.As(err, &exit):
		return exit.code
	}
	return 1
}

// Execute runs a program's command line. Usage errors name the expected form and suggest
// corrections; see ExitCode.
func Execute(ctx context.Context, root *cobra.Command) error {
	root.SetFlagErrorFunc(flagError)
	sayUsage(root)
	if width, must := text.Width(os.Stdout); must {
		help := root.HelpFunc()
		root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
			fitHelp(root, width) // at this time, because manual pages and completion use other lines
			help(cmd, args)
		})
	}
	return flagError(root, root.ExecuteContext(ctx)) // errors of flags before a command keep the library's text
}

// flagError adds the expected form of an invalid flag value, and a suggestion for an unknown flag.
// It keeps other errors.
func flagError(cmd *cobra.Command, err error) error {
	var missing *pflag.NotExistError
	if errors.As(err, &missing) {
		return Misused(flagMissing(cmd, missing))
	}
	var valueless *pflag.ValueRequiredError
	if errors.As(err, &valueless) {
		return Misused(err)
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	takes := map[string]string{
		"uint": "a whole number, 0 or more", "uint64": "a whole number, 0 or more", "int": "a whole number",
		"duration": "a time with its unit, such as 10s or 2m", "bool": "true or false",
	}[invalid.GetFlag().Value.Type()]
	if takes == "" {
		return Misused(err)
	}
	return Misused(fmt.Errorf("--%s %s: use %s", invalid.GetFlag().Name, invalid.GetValue(), takes))
}

// flagMissing suggests a similar flag, or the equivalent of one known elsewhere: -w repeats a
// command, -f follows records.
func flagMissing(cmd *cobra.Command, missing *pflag.NotExistError) error {
	name, short := missing.GetSpecifiedName(), missing.GetSpecifiedShortnames() != ""
	others := map[string]string{"f": "watch", "follow": "watch", "w": "follow", "watch": "follow"}
	if other := cmd.Flags().Lookup(others[name]); other != nil && other.Shorthand != name {
		return fmt.Errorf("%s has no -%s: use -%s, to %s", cmd.Name(), name[:1], other.Shorthand, other.Usage)
	}
	dashes := "--"
	if short {
		dashes = "-"
	}
	wrong := fmt.Errorf("%s has no flag %s%s", cmd.CommandPath(), dashes, name)
	switch last := cmd.Flags().Lookup("last"); {
	case short && '0' <= name[0] && name[0] <= '9' && last != nil:
		return fmt.Errorf("%w: use --last N, for the %s", wrong, last.Usage)
	case !short:
		var names []string
		for _, set := range []*pflag.FlagSet{cmd.PersistentFlags(), cmd.Flags(), cmd.InheritedFlags()} {
			set.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		}
		if near, ok := config.Nearest(name, names); ok {
			return fmt.Errorf("%w: did you mean --%s?", wrong, near)
		}
	}
	return fmt.Errorf("%w: %s --help lists them", wrong, cmd.CommandPath())
}

// fitHelp wraps the help of a command and its subcommands at the width.
func fitHelp(cmd *cobra.Command, width int) {
	for _, sub := range cmd.Commands() {
		fitHelp(sub, width)
	}
	cmd.Long = text.Reflow(cmp.Or(cmd.Long, cmd.Short), width)
	if cmd.HasParent() {
		before := 2 + cmd.NamePadding() + 1 // in the list of commands
		cmd.Short = text.Column(cmd.Short, width, before)
	} else { // the others have its template
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "FlagUsages", fmt.Sprintf("FlagUsagesWrapped %d", width)))
	}
}

// sayUsage adds the usage line to errors about arguments, for a command and its subcommands.
func sayUsage(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
	}
	check := cmd.Args
	if check == nil || cmd.HasSubCommands() {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		switch {
		case check(cmd, args) == nil:
			return nil
		case len(args) == 0:
			return Misused(fmt.Errorf("missing argument: usage: %s", cmd.UseLine()))
		}
		return Misused(fmt.Errorf("arguments %q: usage: %s", strings.Join(args, " "), cmd.UseLine()))
	}
}
