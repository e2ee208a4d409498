package main

import (
	"errors"
	"io"
	"net"

	"github.com/spf13/cobra"
)

// relayCommand connects standard input and output to a socket. --kubeconfig runs it in the agents'
// containers.
func relayCommand(in io.Reader, out io.Writer) *cobra.Command {
	return &cobra.Command{
		Use:    "relay SOCKET",
		Short:  "Connect standard input and output to an agent's socket",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			agent, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: args[0], Net: "unix"})
			if err != nil {
				return err
			}
			defer agent.Close()
			go func() {
				_, _ = io.Copy(agent, in)
				_ = agent.CloseWrite()
			}()
			_, err = io.Copy(out, agent)
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return err
		},
	}
}
