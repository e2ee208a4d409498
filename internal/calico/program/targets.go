package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
)

var retry = kvscheduler.Retry{Period: time.Second, ExpBackoff: true}

// Scheduler is a Target: the KVScheduler of this process.
type Scheduler struct {
	*kvscheduler.Scheduler
	Log *slog.Logger
}

// Resync reads the state of the vswitch, so that a restarted agent recognises its routes.
func (s Scheduler) Resync(ctx context.Context, values []proto.Message) error {
	return s.commit(ctx, values, nil, kvscheduler.WithResync(kvscheduler.FullResync), kvscheduler.WithDescription("routes of Calico's blocks, all"))
}

func (s Scheduler) Change(ctx context.Context, put []proto.Message, remove []string) error {
	return s.commit(ctx, put, remove, kvscheduler.WithDescription("routes of Calico's blocks, changes"))
}

func (s Scheduler) commit(ctx context.Context, put []proto.Message, remove []string, options ...kvscheduler.TxnOption) error {
	txn := s.NewTransaction()
	for _, key := range remove {
		txn.Delete(key)
	}
	for _, value := range put {
		txn.Put(models.Key(value), value)
	}
	_, err := txn.Commit(ctx, append(options, kvscheduler.WithRetry(retry))...)
	if failed, ok := errors.AsType[*kvscheduler.TransactionError](err); ok {
		s.Log.Error("Programming some routes failed, retrying", "error", failed)
		return nil
	}
	return err
}

// Agent is a Target: a running agent.
type Agent struct {
	*client.Client
	Log *slog.Logger
}

func (a Agent) Resync(ctx context.Context, values []proto.Message) error {
	_, err := a.Client.Resync(ctx, values...)
	return a.result(err)
}

func (a Agent) Change(ctx context.Context, put []proto.Message, remove []string) error {
	changed := make(map[string]bool, len(put))
	for _, value := range put {
		changed[models.Key(value)] = true
	}
	txn := a.Txn().Put(put...)
	for _, key := range remove {
		if !changed[key] {
			txn.DeleteKeys(key)
		}
	}
	_, err := txn.Commit(ctx)
	return a.result(err)
}

func (a Agent) result(err error) error {
	if failed, ok := errors.AsType[*client.TransactionError](err); ok && !failed.Reverted {
		a.Log.Error("Some routes failed in the agent, which retries", "error", failed)
		return nil
	}
	return err
}

// Printer is a Target that only prints the changes.
type Printer struct{ io.Writer }

func (p Printer) Resync(_ context.Context, values []proto.Message) error {
	fmt.Fprintln(p, "would make these all that is set:")
	return p.print("  ", values)
}

func (p Printer) Change(_ context.Context, put []proto.Message, remove []string) error {
	for _, key := range remove {
		fmt.Fprintln(p, "would remove", key)
	}
	return p.print("would set ", put)
}

func (p Printer) print(start string, values []proto.Message) error {
	for _, value := range values {
		text := models.Key(value)
		if r, ok := value.(*vpp_l3.Route); ok {
			text = r.GetDstNetwork() + " via " + r.GetNextHopAddr()
			if r.GetType() == vpp_l3.Route_DROP {
				text = r.GetDstNetwork() + " drop"
			}
		}
		fmt.Fprintln(p, start+strings.TrimSpace(text))
	}
	return nil
}
