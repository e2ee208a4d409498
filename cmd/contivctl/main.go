// Command contivctl shows and changes the state of Contiv on the nodes of a cluster. It is also
// installed as contiv-netctl.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	_ "github.com/contiv/contiv/cmd/contivctl/heap"
	"github.com/contiv/contiv/internal/ctl"
	"github.com/contiv/contiv/internal/ctl/install"
	"github.com/contiv/contiv/internal/ctl/text"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	name := filepath.Base(os.Args[0])
	command := newCommand(name, os.Stdout, os.Stderr)
	err := ctl.Execute(ctx, command)
	if err == nil {
		return
	}
	if !errors.Is(err, ctl.ErrReported) {
		fmt.Fprintf(text.Messages(os.Stderr), "%s: %v\n", name, err)
	}
	os.Exit(ctl.ExitCode(err))
}

func newCommand(name string, out, errOut io.Writer) *cobra.Command {
	command := ctl.Command(name, out, errOut)
	command.AddCommand(credentialsCommand(text.Plain(out)), manCommand(text.Plain(out)), relayCommand(os.Stdin, out))
	command.AddCommand(install.Commands(text.Plain(out), text.Plain(errOut))...)
	return command
}
