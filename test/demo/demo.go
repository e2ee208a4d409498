package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// Options configure the demo.
type Options struct {
	// Lab holds the options of the demo's lab.
	Lab lab.Options
	// Keep leaves the lab running.
	Keep bool
	// BatchPods is the number of pods for the measurement of CNI ADD. Default 20.
	BatchPods int
	// UpLimit bounds the start of the lab. Default DefaultUpLimit.
	UpLimit time.Duration
	// Command is the command line of contiv-lab in hints. Default "contiv-lab".
	Command string
}

// demo is one run.
type demo struct {
	opts Options
	out  io.Writer
	lab  *lab.Lab
	// pods are used by the items, two on each node.
	pods []lab.Pod
	// failed holds the titles of failed items.
	failed []string
}

// item is one step of the demo.
type item struct {
	title string
	run   func(*demo, context.Context) error
}

var items = []item{
	{"The nodes", (*demo).showNodes},
	{"Pods, wired by contiv-cni as a container runtime calls it", (*demo).addPods},
	{"Connectivity, measured with real packets", (*demo).showMatrix},
	{"The transaction that wired one pod", (*demo).showWiring},
	{"Routes deleted by hand come back", (*demo).showDrift},
	{"An agent is killed while packets flow", (*demo).showKill},
	{"How long CNI ADD takes", (*demo).showADD},
}

// DefaultUpLimit is the default of Options.UpLimit.
const DefaultUpLimit = 30 * time.Second

// Run prints the demo to out. The error names the failed items.
func Run(ctx context.Context, out io.Writer, opts Options) (err error) {
	if opts.BatchPods == 0 {
		opts.BatchPods = 20
	}
	if opts.Lab.Nodes == 0 {
		opts.Lab.Nodes = 2
	}
	opts.UpLimit = cmp.Or(opts.UpLimit, DefaultUpLimit)
	if opts.Command == "" {
		opts.Command = "contiv-lab"
	}
	d := &demo{opts: opts, out: out}
	began := time.Now()
	d.title(0, "A lab: etcd, KSR and %d nodes", opts.Lab.Nodes)
	opts.Lab.Progress = func(line string) { d.printf("  %6.2fs  %s\n", time.Since(began).Seconds(), line) }
	if d.lab, err = lab.Up(ctx, opts.Lab); err != nil {
		return fmt.Errorf("the lab does not come up: %w", err)
	}
	took := time.Since(began)
	if up := fmt.Sprintf("the lab is up after %.2f s (at most %.0f s)", took.Seconds(), opts.UpLimit.Seconds()); took <= opts.UpLimit {
		d.fact("%s", up)
	} else {
		d.printf("  FAIL  %s\n", up)
		d.failed = append(d.failed, "the lab is up in time")
	}
	if !opts.Keep {
		defer func() { err = errors.Join(err, d.down(ctx)) }()
	}
	for i, item := range items {
		d.title(i+1, "%s", item.title)
		if err := item.run(d, ctx); err != nil {
			if ctx.Err() != nil {
				return fmt.Errorf("interrupted: %w", ctx.Err())
			}
			d.printf("  FAIL  %s\n", strings.ReplaceAll(err.Error(), "\n", "\n        "))
			d.failed = append(d.failed, item.title)
		}
	}
	d.title(len(items)+1, "To look further")
	d.showCommands()
	if len(d.failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(d.failed, "; "))
	}
	d.printf("\nAll items are as promised. The demo took %.1f s.\n", time.Since(began).Seconds())
	return nil
}

// down removes the lab, even if ctx has ended, and checks for leftovers.
func (d *demo) down(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	d.printf("\n")
	if err := d.lab.Down(ctx); err != nil {
		return err
	}
	left, err := lab.Leftovers(d.opts.Lab)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("the lab left behind: %s", strings.Join(left, ", "))
	}
	d.fact("the lab is removed: no namespace, process or file of it is left")
	return nil
}

func (d *demo) printf(format string, args ...any) { fmt.Fprintf(d.out, format, args...) }

func (d *demo) title(number int, format string, args ...any) {
	text := fmt.Sprintf("%d. %s", number, fmt.Sprintf(format, args...))
	d.printf("\n%s\n%s\n", text, strings.Repeat("─", len([]rune(text))))
}

// fact prints a confirmed fact.
func (d *demo) fact(format string, args ...any) { d.printf("  ok    "+format+"\n", args...) }

func ms(t time.Duration) string { return fmt.Sprintf("%.2f ms", t.Seconds()*1000) }
