package metrics

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// names maps documented names to names that follow the Prometheus conventions.
var names = map[string]string{
	"inPackets":        "contiv_interface_receive_packets_total",
	"outPackets":       "contiv_interface_transmit_packets_total",
	"inBytes":          "contiv_interface_receive_bytes_total",
	"outBytes":         "contiv_interface_transmit_bytes_total",
	"dropPackets":      "contiv_interface_drop_packets_total",
	"puntPackets":      "contiv_interface_punt_packets_total",
	"ipv4Packets":      "contiv_interface_receive_ipv4_packets_total",
	"ipv6Packets":      "contiv_interface_receive_ipv6_packets_total",
	"inNobufPackets":   "contiv_interface_receive_nobuf_packets_total",
	"inMissPackets":    "contiv_interface_receive_miss_packets_total",
	"inErrorPackets":   "contiv_interface_receive_error_packets_total",
	"outErrorPackets":  "contiv_interface_transmit_error_packets_total",
	"guardDropPackets": "contiv_guard_drop_packets_total",

	"ligato_kvscheduler_txn_processed":        "contiv_transactions_total",
	"ligato_kvscheduler_txn_dropped":          "contiv_transactions_dropped_total",
	"ligato_kvscheduler_queue_wait_seconds":   "contiv_transaction_wait_seconds",
	"ligato_kvscheduler_txn_duration_seconds": "contiv_transaction_duration_seconds",
	"ligato_kvscheduler_operations":           "contiv_operations_total",
	"ligato_kvscheduler_operation_failures":   "contiv_operation_failures_total",
	"ligato_kvscheduler_southbound_seconds":   "contiv_southbound_seconds_total",
	"ligato_kvscheduler_queue_capacity":       "contiv_transaction_queue_capacity",
	"ligato_kvscheduler_queue_length":         "contiv_transaction_queue_length",

	"adds":         "contiv_ksr_adds_total",
	"deletes":      "contiv_ksr_deletes_total",
	"updates":      "contiv_ksr_updates_total",
	"addErrors":    "contiv_ksr_add_errors_total",
	"deleteErrors": "contiv_ksr_delete_errors_total",
	"updateErrors": "contiv_ksr_update_errors_total",
	"resyncs":      "contiv_ksr_resyncs_total",
	"resyncErrors": "contiv_ksr_resync_errors_total",
	"argErrors":    "contiv_ksr_arg_errors_total",
	"leading":      "contiv_ksr_leading",
	"synced":       "contiv_ksr_synced",
	"objects":      "contiv_ksr_objects",
}

// labels of metrics with a conventional name
var labels = map[string]string{
	"podName": "pod", "podNamespace": "namespace", "interfaceName": "interface", "txn_type": "type", "reflectorType": "kind",
}

// Name returns the conventional name of a metric, or "". Tests check documentation and dashboards
// with it.
func Name(documented string) string { return names[documented] }

// Label returns the name of a label in a metric with a conventional name.
func Label(documented string) string { return cmp.Or(labels[documented], documented) }

// Conventional returns a gatherer of the same metrics, with a second copy under their conventional
// names.
func Conventional(g prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		for _, f := range families { // the range does not grow
			if name := names[f.GetName()]; name != "" {
				families = append(families, renamed(f, name))
			}
		}
		slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
		return families, err
	})
}

const counted = "_total"

func renamed(f *dto.MetricFamily, name string) *dto.MetricFamily {
	other := &dto.MetricFamily{Name: &name, Help: f.Help, Type: f.Type}
	isCounter := len(name) > len(counted) && name[len(name)-len(counted):] == counted
	if isCounter {
		other.Type = dto.MetricType_COUNTER.Enum()
	}
	for _, m := range f.GetMetric() {
		again := &dto.Metric{Gauge: m.Gauge, Counter: m.Counter, Histogram: m.Histogram, Summary: m.Summary, Untyped: m.Untyped}
		if isCounter && m.Gauge != nil {
			again.Gauge, again.Counter = nil, &dto.Counter{Value: m.Gauge.Value}
		}
		for _, l := range m.GetLabel() {
			label := Label(l.GetName())
			again.Label = append(again.Label, &dto.LabelPair{Name: &label, Value: l.Value})
		}
		slices.SortFunc(again.Label, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
		other.Metric = append(other.Metric, again)
	}
	return other
}
