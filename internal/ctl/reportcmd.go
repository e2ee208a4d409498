package ctl

import (
	"archive/tar"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/internal/ctl/report"
	"github.com/spf13/cobra"
)

// reportTimeout is the default of --timeout for a report, which contains everything that agents
// know.
const reportTimeout = time.Minute

func (c *cli) reportCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "report [NODE]",
		Short: "Collect the agents' state into a file for a bug report",
		Long: "Collect everything that the other commands show, with histories, from all agents into one file.\n" +
			"Other commands read such a file with --from FILE. Secrets are removed; addresses, and names of nodes,\n" +
			"pods and services, are included.",
		Example: "  report --file bug.tgz\n  --from bug.tgz status",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			timeout := c.targets.Timeout
			if !cmd.Flags().Changed("timeout") {
				timeout = reportTimeout
			}
			ctx, cancel := c.within(cmd, timeout)
			defer cancel()
			if c.targets.Recorded != nil {
				return Misused(errors.New("--from and report exclude each other: drop --from"))
			}
			agents, err := c.targets.Selected(ctx, args)
			if err != nil {
				return err
			}
			now := time.Now()
			if file == "" {
				file = "contiv-report-" + now.Format("20060102-150405") + ".tgz"
			}
			meta, err := pack(ctx, agents, file, now)
			if err != nil {
				return err
			}
			var failed error
			for _, n := range meta.Nodes {
				if n.Error != "" {
					fmt.Fprintf(c.errOut, "%s: %s: %s\n", c.name, n.Name, n.Error)
					failed = ErrReported
				}
			}
			size := ""
			if info, err := os.Stat(file); err == nil {
				size = fmt.Sprintf(" (%d kB)", (info.Size()+1023)/1024)
			}
			c.printer().Printf("%s%s: %s. `%s --from %s COMMAND` reads it.\n", file, size, count(len(meta.Nodes), "node"), c.name, file)
			return failed
		},
	}
	cmd.Flags().StringVar(&file, "file", "", "file to write to (default: contiv-report-TIME.tgz)")
	return cmd
}

// pack writes a report to a file with mode 0600. On failure, it removes the file.
func pack(ctx context.Context, agents []*Agent, name string, now time.Time) (report.Meta, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return report.Meta{}, err
	}
	meta, err := report.Pack(ctx, agents, file, now)
	if err = errors.Join(err, file.Close()); err != nil {
		os.Remove(name)
	}
	return meta, err
}

// ofReports lists the commands that can read a report.
var ofReports = []string{
	"nodes", "nodeconfig", "pods", "ipam", "interfaces", "drops", "status", "services", "policies", "denials", "events", "txns", "values", "dump",
	"explain", "timeline", "diff", "graph",
}

// openReport makes a command read a report instead of asking agents.
func (c *cli) openReport(name string, cmd *cobra.Command) error {
	if !slices.Contains(ofReports, cmd.Name()) || cmd.Parent() != cmd.Root() {
		return Misused(fmt.Errorf("--from: a report cannot answer `%s`: use one of %s", cmd.CommandPath(), strings.Join(ofReports, ", ")))
	}
	for _, flag := range []string{"follow", "watch"} {
		if cmd.Flags().Changed(flag) {
			return Misused(fmt.Errorf("--from reads a report, which does not change: drop --%s", flag))
		}
	}
	meta, agents, err := report.Open(name)
	if err != nil {
		return Misused(fmt.Errorf("--from: %w", unreadable(name, err)))
	}
	c.targets.Recorded = agents
	c.now = func() time.Time { return meta.Time }
	return nil
}

// unreadable returns a readable error for a report file.
func unreadable(name string, err error) error {
	var damaged flate.CorruptInputError
	what := "is not a report of `contivctl report`, which is a .tgz file"
	switch {
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF) && !isGzip(name):
	case errors.Is(err, io.ErrUnexpectedEOF):
		what = "is a truncated report: copy it again"
	case errors.Is(err, io.EOF):
		what = "is empty"
	case errors.Is(err, gzip.ErrChecksum), errors.As(err, &damaged):
		what = "is a report that was damaged: copy it again"
	default:
		return err
	}
	return fmt.Errorf("%s %s", name, what)
}

func isGzip(name string) bool {
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var begin [2]byte
	_, err = io.ReadFull(file, begin[:])
	return err == nil && begin == [...]byte{0x1f, 0x8b}
}
