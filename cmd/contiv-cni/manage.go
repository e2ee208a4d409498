package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/contiv/contiv/internal/cni"
	"github.com/contiv/contiv/internal/cni/install"
	"github.com/contiv/contiv/internal/lib/logline"
	"github.com/contiv/contiv/internal/lib/version"
)

const usage = `The container runtime runs contiv-cni. Commands for administrators:

  contiv-cni install [flags]     Install contiv-cni on this node, and restore removed or changed
                                 files until SIGTERM; with --once, exit when installed
  contiv-cni uninstall [flags]   Remove contiv-cni from this node
  contiv-cni version             Print the version

"contiv-cni COMMAND -h" lists the flags of a command.
`

// manage runs a command of the user and returns the exit code.
func manage(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	err := error(nil)
	switch args[0] {
	case "install":
		err = runInstall(ctx, args[1:])
	case "uninstall":
		err = runUninstall(args[1:])
	case "version", "--version":
		fmt.Println("contiv-cni", version.Version)
	case "help", "-h", "--help":
		fmt.Print(usage)
	default:
		fmt.Fprintf(os.Stderr, "contiv-cni: unknown command %q\n\n%s", args[0], usage)
		return 2
	}
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "contiv-cni:", err)
		return 1
	}
	return 0
}

// installation holds the flags of install.
type installation struct {
	install.Options
	chain string
	once  bool
}

func (i *installation) flags() *flag.FlagSet {
	flags := newFlags("install", &i.Options)
	flags.BoolVar(&i.once, "once", false, "exit when everything is installed, instead of restoring changed files")
	flags.StringVar(&i.Conflist, "conflist", "", "CNI configuration list to install (default: a list of contiv-cni and --chain)")
	flags.StringVar(&i.Server, "socket", cni.DefaultServer, "path of the agent's socket on the node")
	flags.StringVar(&i.LogFile, "log-file", cni.DefaultLogFile, "path of contiv-cni's log on the node")
	flags.StringVar(&i.chain, "chain", "", "comma-separated CNI plugins to run after contiv-cni if they are installed, such as bandwidth, tuning or portmap (replaces Contiv's host ports)")
	return flags
}

func runInstall(ctx context.Context, args []string) error {
	var i installation
	if err := parse(i.flags(), args); err != nil {
		return err
	}
	o := i.Options
	o.Chain = strings.FieldsFunc(i.chain, func(r rune) bool { return r == ',' || r == ' ' })
	var err error
	if o.Program, err = os.Executable(); err != nil {
		return err
	}
	if i.once {
		err = install.Install(ctx, o)
	} else {
		err = install.Keep(ctx, o) // as containers of a DaemonSet must; the installed files stay
	}
	if ctx.Err() != nil {
		if err != nil {
			o.Log.Info("Interrupted", "error", err)
		}
		return nil
	}
	return err
}

func runUninstall(args []string) error {
	var o install.Options
	flags := newFlags("uninstall", &o)
	flags.BoolVar(&o.KeepProgram, "keep-program", false, "keep the program, which the runtime needs to remove the remaining pods")
	if err := parse(flags, args); err != nil {
		return err
	}
	return install.Uninstall(o)
}

func newFlags(command string, o *install.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("contiv-cni "+command, flag.ContinueOnError)
	flags.StringVar(&o.BinDir, "bin-dir", cmp.Or(os.Getenv("CNI_BIN_DIR"), "/opt/cni/bin"), "directory of the CNI plugins (environment: CNI_BIN_DIR)")
	flags.StringVar(&o.NetDir, "net-dir", cmp.Or(os.Getenv("CNI_NET_DIR"), "/etc/cni/net.d"), "directory of the CNI configuration (environment: CNI_NET_DIR)")
	o.Log = logline.New(os.Stderr, slog.LevelInfo)
	return flags
}

func parse(flags *flag.FlagSet, args []string) error {
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	return nil
}
