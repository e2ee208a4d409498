package ctl

import (
	"context"
	"fmt"
	"strconv"

	"github.com/contiv/contiv/kvscheduler"
	"github.com/spf13/cobra"
)

const txnHistory = "/scheduler/txn-history"

func (c *cli) txnsCommand() *cobra.Command {
	var last uint
	cmd := &cobra.Command{
		Use:   "txns [SEQ]",
		Short: "The transactions of the scheduler; with SEQ, one of them in full",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := c.limited(cmd)
			defer cancel()
			if len(args) == 1 {
				seq, err := strconv.ParseUint(args[0], 10, 64)
				if err != nil {
					return fmt.Errorf("%q is no sequence number of a transaction: a node is named with --node", args[0])
				}
				return c.showTxn(ctx, seq)
			}
			agents, err := c.targets.selected(ctx, nil)
			if err != nil {
				return err
			}
			return show(c, getAll[[]*kvscheduler.RecordedTxn](ctx, agents, txnHistory, lastN(last)), writeTxns)
		},
	}
	cmd.Flags().UintVar(&last, "last", 20, "number of transactions of each node; 0: all that are remembered")
	return cmd
}

func (c *cli) showTxn(ctx context.Context, seq uint64) error {
	agent, err := c.targets.one(ctx, nil)
	if err != nil {
		return err
	}
	answers := getAll[*kvscheduler.RecordedTxn](ctx, []*Agent{agent}, txnHistory, number("seq-num", seq))
	return show(c, answers, func(p printer, good []answer[*kvscheduler.RecordedTxn]) {
		txn := *good[0].value
		txn.Start, txn.Stop = txn.Start.Local(), txn.Stop.Local()
		p.printf("%s", txn.String())
	})
}

func writeTxns(p printer, good []answer[[]*kvscheduler.RecordedTxn]) {
	t := p.table("NODE", "SEQ", "TIME", "TOOK", "OPS", "FAILED", "TRANSACTION")
	for _, a := range good {
		for _, txn := range a.value {
			failed := 0
			for _, op := range txn.Executed {
				if op.NewErr != nil {
					failed++
				}
			}
			t.add(a.agent.Name, strconv.FormatUint(txn.SeqNum, 10), stamp(txn.Start), took(txn.Stop.Sub(txn.Start)),
				strconv.Itoa(len(txn.Executed)), strconv.Itoa(failed), txnText(txn))
		}
	}
	t.write()
}

// txnText says where a transaction came from, and what it was for.
func txnText(t *kvscheduler.RecordedTxn) string {
	text := ""
	switch {
	case t.Type == kvscheduler.SBNotification:
		text = "notification of the southbound"
	case t.Type == kvscheduler.RetryFailedOps:
		text = fmt.Sprintf("retry of #%d, attempt %d", t.RetryForTxn, t.RetryAttempt)
	case t.Type == kvscheduler.RetryUnimplOps:
		text = "retry of unimplemented values"
	case t.Resync == kvscheduler.FullResync:
		text = "full resync"
	case t.Resync == kvscheduler.UpstreamResync:
		text = "upstream resync"
	case t.Resync == kvscheduler.DownstreamResync:
		text = "downstream resync"
	}
	switch {
	case t.Description == "":
		return text
	case text == "":
		return t.Description
	}
	return text + ": " + t.Description
}
