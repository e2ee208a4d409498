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

	"github.com/contiv/contiv/cni"
	"github.com/contiv/contiv/cni/install"
	"github.com/contiv/contiv/logline"
	"github.com/contiv/contiv/version"
)

const usage = `contiv-cni is run by the container runtime. By hand:

  contiv-cni install [flags]     install on this node and restore removed or changed files
                                 until SIGTERM; with --once, exit when installed
  contiv-cni uninstall [flags]   remove it from this node
  contiv-cni version

-h after a command lists its flags.
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
	flags.BoolVar(&i.once, "once", false, "exit when everything is installed")
	flags.StringVar(&i.Conflist, "conflist", "", "file with the CNI configuration list to install (default: a list of contiv-cni and --chain)")
	flags.StringVar(&i.Server, "socket", cni.DefaultServer, "socket of the agent, as seen from the node")
	flags.StringVar(&i.LogFile, "log-file", cni.DefaultLogFile, "log of contiv-cni, as seen from the node")
	flags.StringVar(&i.chain, "chain", "", "further plugins, separated by commas, if they are installed: bandwidth, tuning, portmap (instead of Contiv's own host ports), ...")
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
	flags.BoolVar(&o.KeepProgram, "keep-program", false, "leave the program: the runtime needs it to remove the remaining pods")
	if err := parse(flags, args); err != nil {
		return err
	}
	return install.Uninstall(o)
}

func newFlags(command string, o *install.Options) *flag.FlagSet {
	flags := flag.NewFlagSet("contiv-cni "+command, flag.ContinueOnError)
	flags.StringVar(&o.BinDir, "bin-dir", cmp.Or(os.Getenv("CNI_BIN_DIR"), "/opt/cni/bin"), "folder of the CNI plugins; environment: CNI_BIN_DIR")
	flags.StringVar(&o.NetDir, "net-dir", cmp.Or(os.Getenv("CNI_NET_DIR"), "/etc/cni/net.d"), "folder of the CNI configuration; environment: CNI_NET_DIR")
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
