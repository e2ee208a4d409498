package peers

import "github.com/prometheus/client_golang/prometheus"

var (
	labels     = []string{"peer", "address"}
	upDesc     = prometheus.NewDesc("contiv_peer_up", "1 if the node answered the last round of probes over the overlay, else 0.", labels, nil)
	tripDesc   = prometheus.NewDesc("contiv_peer_round_trip_seconds", "Round trip of the last probe that was answered.", labels, nil)
	sizeDesc   = prometheus.NewDesc("contiv_peer_path_mtu_bytes", "Largest packet that reached the node and came back, at most the MTU of pods.", labels, nil)
	wantedDesc = prometheus.NewDesc("contiv_peer_pod_mtu_bytes", "Largest packet that pods send to the node.", labels, nil)
	sentDesc   = prometheus.NewDesc("contiv_peer_probes_total", "Probes sent to the node.", labels, nil)
	lostDesc   = prometheus.NewDesc("contiv_peer_probes_lost_total", "Probes without an answer; large ones are among them while the path is searched for its MTU.", labels, nil)
)

func (p *Prober) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{upDesc, tripDesc, sizeDesc, wantedDesc, sentDesc, lostDesc} {
		out <- d
	}
}

func (p *Prober) Collect(out chan<- prometheus.Metric) {
	for _, r := range p.Reports() {
		send := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
			out <- prometheus.MustNewConstMetric(desc, kind, value, r.Node, r.Address)
		}
		up := 0.0
		if r.Answers {
			up = 1
		}
		send(upDesc, prometheus.GaugeValue, up)
		if r.RoundTripSeconds > 0 {
			send(tripDesc, prometheus.GaugeValue, r.RoundTripSeconds)
		}
		if r.Size > 0 {
			send(sizeDesc, prometheus.GaugeValue, float64(r.Size))
		}
		send(wantedDesc, prometheus.GaugeValue, float64(r.Wanted))
		send(sentDesc, prometheus.CounterValue, float64(r.Sent))
		send(lostDesc, prometheus.CounterValue, float64(r.Lost))
	}
}
