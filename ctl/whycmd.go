package ctl

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/contiv/contiv/ctl/why"
	"github.com/spf13/cobra"
)

func (c *cli) whyCommand() *cobra.Command {
	var namespace string
	cmd := &cobra.Command{
		Use:   "why FROM TO [PORT[/PROTOCOL]]",
		Short: "Whether packets get from one place to another, and if not, why",
		Long: "Asks the agents at both ends what is wired for packets between them, what the kernel would do with\n" +
			"them, and what of others is in the way; and has packets sent, small and large, from the place that they\n" +
			"come from to each step of the way.\n\n" +
			"FROM and TO are pods (NAME or NAMESPACE/NAME), nodes, services (svc/NAME or svc/NAMESPACE/NAME), or\n" +
			"addresses, also outside of the cluster. pod/NAME and node/NAME leave no doubt. With PORT, a connection is\n" +
			"tried as well if the protocol is tcp. Ports of services have names, too, and may be written svc/NAME:PORT.\n\n" +
			"Of a service, the paths to the endpoints that the client is sent to are judged, up to five of them. If it\n" +
			"has one port, PORT may be left out.\n\n" +
			"The exit code is 0 if packets arrive and nothing is wrong, 2 if nothing wrong is known, but nothing could\n" +
			"be sent because FROM is outside of the cluster, 3 if the command line has a mistake, such as a name\n" +
			"that nobody has, or it is not known which agents there are, else 1.",
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
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "of pods and services that are named without one")
	return cmd
}

// splitPort takes the port out of the arguments, where it is the third one, or follows the name of a service: svc/NAME:PORT.
func splitPort(args []string) (ends []string, port string, err error) {
	ends = slices.Clone(args[:2])
	if len(args) == 3 {
		if port = args[2]; port == "" {
			return nil, "", Misused(errors.New(`PORT is empty: write 80, 80/tcp or 53/udp, or leave it out`))
		}
	}
	for i, word := range ends {
		name, of, has := strings.Cut(word, ":")
		switch {
		case !strings.HasPrefix(word, servicePrefix) || !has:
			continue
		case i == 0:
			return nil, "", Misused(fmt.Errorf("%q has a port, but packets come from there: give the port of the other end", word))
		case port != "":
			return nil, "", Misused(fmt.Errorf("%q has a port already: drop %q", word, port))
		case of == "":
			return nil, "", Misused(fmt.Errorf("%q: the port is missing", word))
		}
		ends[i], port = name, of
	}
	return ends, port, nil
}
