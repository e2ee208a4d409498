package contivgrpc

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/models"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

const (
	// EventMetadata is the number of the event; see `contivctl events`.
	EventMetadata = "contiv-event"
	// TxnMetadata is the number of the transaction, if any; see `contivctl txns`. Ligato's clients
	// use the name.
	TxnMetadata = "seqnum"
	// WarningMetadata names unknown fields and values that the vswitch does not support.
	WarningMetadata = "contiv-warning"
)

const maxWarnings = 8

func setOutcome(ctx context.Context, o controller.Outcome) {
	md := metadata.MD{}
	if o.Record != nil {
		md.Set(EventMetadata, strconv.FormatUint(o.Record.SeqNum, 10))
	}
	if txn := o.Txn(); txn != nil {
		md.Set(TxnMetadata, strconv.FormatUint(txn.SeqNum, 10))
	}
	_ = grpc.SetHeader(ctx, md) // fails only outside of calls
}

func warnUnsupported(ctx context.Context, err error) {
	var warnings []string
	for _, failed := range unsupportedIn(err) {
		warnings = append(warnings, strconv.QuoteToASCII(shorten(failed.Error(), maxCause)))
	}
	if len(warnings) > 0 {
		_ = grpc.SetHeader(ctx, metadata.MD{WarningMetadata: warnings[:min(len(warnings), maxWarnings)]})
	}
}

// warn warns of unknown fields, such as a newer API's: they are stored but have no effect.
func (s *Service) warn(ctx context.Context, c Change) {
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(c.Values)) {
		if c.Values[key] == nil {
			continue
		}
		for _, unknown := range models.UnknownFields(c.Values[key]) {
			warnings = append(warnings, fmt.Sprintf("%s: %v", key, unknown.Err()))
		}
	}
	if len(warnings) == 0 {
		return
	}
	warnings = warnings[:min(len(warnings), maxWarnings)]
	s.log.Warn("Unknown fields in a client's request ignored", "client", c.Client, "fields", warnings)
	for i, warning := range warnings {
		warnings[i] = strconv.QuoteToASCII(shorten(warning, maxCause))
	}
	_ = grpc.SetHeader(ctx, metadata.MD{WarningMetadata: warnings})
}
