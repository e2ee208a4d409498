// Command contivctl shows what Contiv does on the nodes of a cluster. It is also
// installed as contiv-netctl.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	_ "github.com/contiv/contiv/cmd/contivctl/heap"
	"github.com/contiv/contiv/ctl"
	"github.com/contiv/contiv/ctl/install"
	"github.com/contiv/contiv/ctl/text"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	name := filepath.Base(os.Args[0])
	command := ctl.Command(name, os.Stdout, os.Stderr)
	command.AddCommand(credentialsCommand(text.Plain(os.Stdout)), manCommand(text.Plain(os.Stdout)), relayCommand(os.Stdin, os.Stdout))
	command.AddCommand(install.Commands(text.Plain(os.Stdout), text.Plain(os.Stderr))...)
	err := ctl.Execute(ctx, command)
	if err == nil {
		return
	}
	if !errors.Is(err, ctl.ErrReported) {
		fmt.Fprintf(text.Messages(os.Stderr), "%s: %v\n", name, err)
	}
	os.Exit(ctl.ExitCode(err))
}
