package ctl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/contiv/contiv/config"
	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/ctl/text"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// ErrReported is returned by commands that have already printed what failed, so that only the exit
// code is left to set.
var ErrReported = errors.New("failed")

// exitError is an error with an exit code other than 1.
type exitError struct {
	error
	code int
}

func (e *exitError) Unwrap() error { return e.error }

// Exit codes. 1 and 2 are verdicts of commands that judge, such as "status" and "why".
const (
	exitBroken  = 2 // a node
	exitUnknown = 2 // whether packets arrive
	exitUsage   = 3
)

// Misused marks the error of a command that cannot be executed as it is written.
func Misused(err error) error { return text.Mistake(err) }

// ExitCode returns the exit code of a command that ended with the error.
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

// Execute runs a program's command line. Errors about it say what was expected, and suggest corrections; see ExitCode.
func Execute(ctx context.Context, root *cobra.Command) error {
	root.SetFlagErrorFunc(flagError)
	sayUsage(root)
	if width, must := text.Width(os.Stdout); must {
		help := root.HelpFunc()
		root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
			fitHelp(root, width) // now: manual pages and completion have other lines
			help(cmd, args)
		})
	}
	return flagError(root, root.ExecuteContext(ctx)) // of flags before the name of a command, errors are as the library has them
}

// flagError says what a flag takes instead of a value that it does not take, and which flag may have been meant by an
// unknown one. Errors that are not about flags stay.
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
	return Misused(fmt.Errorf("--%s %s: give it %s", invalid.GetFlag().Name, invalid.GetValue(), takes))
}

// flagMissing names the flag that may have been meant: a similar one, or the one that does what an unknown one does
// elsewhere: -w shows again what -f goes on with.
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

// fitHelp has the help of a command and of those below it fit the width.
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

// sayUsage adds how a command and those below it are written to errors about their arguments.
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
			return Misused(fmt.Errorf("an argument is missing: usage: %s", cmd.UseLine()))
		}
		return Misused(fmt.Errorf("arguments %q: usage: %s", strings.Join(args, " "), cmd.UseLine()))
	}
}
