package statscollector

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"

	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/prometheus/client_golang/prometheus"
)

// DropsURL is the handler's path.
const DropsURL = "/contiv/v1/drops"

// Drop is a number of packets dropped by source guards for one reason.
type Drop struct {
	// Namespace and Pod are empty for packets received by an interface without pod, such as VXLAN
	// packets from outside.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	// Interface is the logical name, or the device name of a host device outside the vswitch.
	Interface string `json:"interface"`
	Reason    string `json:"reason"`
	Packets   uint64 `json:"packets"`
}

// DropsReport is the response to GET /contiv/v1/drops.
type DropsReport struct {
	Node string `json:"node"`
	// Drops sorted by namespace, pod, interface and reason.
	Drops []Drop `json:"drops"`
}

// DropsSource reads the drops, without pods. It is nil for a vswitch without source guards.
type DropsSource func() ([]Drop, error)

// Drops reports the packets dropped by source guards to Prometheus and over REST.
type Drops struct {
	node   string
	source DropsSource
	pods   Pods
	log    *slog.Logger
	desc   *prometheus.Desc
}

var _ prometheus.Collector = (*Drops)(nil)

func NewDrops(nodeName string, source DropsSource, pods Pods, log *slog.Logger) *Drops {
	return &Drops{node: nodeName, source: source, pods: pods, log: log, desc: prometheus.NewDesc("guardDropPackets",
		"Packets dropped because their sender must not send them: foreign sources, false claims, too many connections.",
		[]string{"podName", "podNamespace", "interfaceName", "reason"}, prometheus.Labels{"node": nodeName})}
}

// Report reads the vswitch.
func (d *Drops) Report() (DropsReport, error) {
	report := DropsReport{Node: d.node, Drops: []Drop{}}
	drops, err := d.source()
	if err != nil {
		return report, err
	}
	pods := d.pods.PodInterfaces()
	for _, drop := range drops {
		if pod, ok := pods[drop.Interface]; ok {
			drop.Namespace, drop.Pod = pod.Namespace, pod.Name
		}
		report.Drops = append(report.Drops, drop)
	}
	slices.SortFunc(report.Drops, func(a, b Drop) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Interface, b.Interface), cmp.Compare(a.Reason, b.Reason))
	})
	return report, nil
}

// Describe implements prometheus.Collector.
func (d *Drops) Describe(out chan<- *prometheus.Desc) { out <- d.desc }

// Collect implements prometheus.Collector. If the vswitch cannot be read, it reports nothing and
// does not disturb other metrics.
func (d *Drops) Collect(out chan<- prometheus.Metric) {
	report, err := d.Report()
	if err != nil {
		d.log.Warn("Reading the drop counters of source guards failed", "error", err)
		return
	}
	type series struct{ iface, reason string }
	seen := map[series]bool{}
	for _, drop := range report.Drops {
		s := series{drop.Interface, drop.Reason}
		if seen[s] {
			continue // Prometheus would refuse all of them
		}
		seen[s] = true
		out <- prometheus.MustNewConstMetric(d.desc, prometheus.CounterValue, float64(drop.Packets),
			cmp.Or(drop.Pod, noPod), cmp.Or(drop.Namespace, noPod), drop.Interface, drop.Reason)
	}
}

// Handler serves GET /contiv/v1/drops.
func (d *Drops) Handler() http.Handler {
	return rest.Get(func(w http.ResponseWriter, _ *http.Request) {
		report, err := d.Report()
		if err != nil {
			rest.Error(w, http.StatusInternalServerError, err)
			return
		}
		rest.JSON(w, report)
	})
}
