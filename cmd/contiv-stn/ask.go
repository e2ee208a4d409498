package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/contiv/contiv/api/contiv/stn"
	"github.com/contiv/contiv/internal/stn/journal"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

func statusCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which network cards are lent to VPP",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path := filepath.Join(o.stateDir, "journal.json")
			j, err := journal.File(path).Load()
			if err != nil {
				return err
			}
			if len(j.NICs) == 0 {
				fmt.Fprintf(c.OutOrStdout(), "%s: no network card is claimed for VPP.\n", path)
				return nil
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "INTERFACE\tHOLDER\tFOR\tADDRESSES\tREASON")
			for _, e := range j.NICs {
				fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%s\n", e.Name, e.Holder, time.Since(e.Since).Round(time.Second), e.State.Prefixes(), e.Reason)
			}
			return w.Flush()
		},
	}
}

func releaseCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "release [INTERFACE]",
		Short: "Return a network card, or all of them, to the host permanently",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			conn, err := grpc.NewClient("unix:"+o.socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				return err
			}
			defer conn.Close()
			ctx, cancel := context.WithTimeout(c.Context(), 30*time.Second)
			defer cancel()
			request := &stn.STNRequest{}
			if len(args) > 0 {
				request.InterfaceName = args[0]
			}
			reply, err := stn.NewSTNClient(conn).ReleaseInterface(ctx, request)
			if err != nil {
				return fmt.Errorf("%w: check that contiv-stn is running", err)
			}
			if reply.GetResult() != 0 {
				return errors.New(reply.GetError())
			}
			return nil
		},
	}
}
