package ctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/internal/ctl/why"
	"github.com/spf13/cobra"
)

func (c *cli) whyCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "why FROM TO [PORT[/PROTOCOL]]",
		Short: "Explain why packets between two endpoints arrive or not",
		Long: "Check the path of packets between two endpoints: how Contiv, the kernel and filters of other software\n" +
			"on both nodes handle them. Also send small and large probes from the source to each step of the path;\n" +
			"with a TCP PORT, open a connection, too.\n\n" +
			"FROM and TO are pods (NAME or NAMESPACE/NAME), nodes, services (svc/NAME or svc/NAMESPACE/NAME), or\n" +
			"addresses, also outside the cluster. pod/NAME and node/NAME are unambiguous. PORT may be the name of a\n" +
			"service's port, also written svc/NAME:PORT. For a service with one port, PORT is optional. At most five\n" +
			"endpoints of a service are checked.\n\n" +
			"The exit code is 0 if packets arrive without findings, 2 if no problem was found but no probe could\n" +
			"be sent because FROM is outside the cluster, 3 if the command line has a mistake, such as an unknown\n" +
			"name, or no agents were found, else 1.",
		Example: "  why web db 5432\n  why web svc/cart:http\n  why shop/web node2\n  why web 203.0.113.10",
		Args:    cobra.RangeArgs(2, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			finding, cancel := c.limited(cmd)
			defer cancel()
			ctx := c.each(cmd)
			args, port, err := splitPort(args)
			if err != nil {
				return err
			}
			agents, err := c.targets.Selected(finding, nil)
			if err != nil {
				return Misused(err)
			}
			for i, word := range args {
				if name, is := strings.CutPrefix(word, servicePrefix); is {
					id, err := serviceID(ctx, agents, namespace, name)
					if err != nil {
						return Misused(err)
					}
					args[i] = servicePrefix + id
				}
			}
			places, known, err := why.Resolve(ctx, agents, namespace, args[0], args[1])
			if err != nil {
				return Misused(err)
			}
			protocol, number, err := places[1].Port(port)
			if err != nil {
				return Misused(err)
			}
			answer := why.Ask(ctx, agents, known, places[0], places[1], protocol, number)
			if c.format != asTable {
				err = c.format.encode(c.out, answer)
			} else {
				why.Write(c.printer(), answer)
			}
			switch {
			case err != nil || answer.Good():
				return err
			case answer.Unknown():
				return &exitError{ErrReported, exitUnknown}
			}
			return ErrReported
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of pods and services given without one (default: any, if the name is unique)")
	return cmd
}

// splitPort separates the port from the arguments: the third one, or the suffix of a service:
// svc/NAME:PORT.
func splitPort(args []string) (ends []string, port string, err error) {
	ends = slices.Clone(args[:2])
	if len(args) == 3 {
		if port = args[2]; port == "" {
			return nil, "", Misused(errors.New(`PORT is empty: use 80, 80/tcp or 53/udp, or omit it`))
		}
	}
	for i, word := range ends {
		name, of, has := strings.Cut(word, ":")
		switch {
		case !strings.HasPrefix(word, servicePrefix) || !has:
			continue
		case i == 0:
			return nil, "", Misused(fmt.Errorf("%q is the source and cannot have a port: move the port to TO", word))
		case port != "":
			return nil, "", Misused(fmt.Errorf("%q already has a port: drop %q", word, port))
		case of == "":
			return nil, "", Misused(fmt.Errorf("%q: missing port", word))
		}
		ends[i], port = name, of
	}
	return ends, port, nil
}
