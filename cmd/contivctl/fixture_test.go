package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	feedbackpb "github.com/contiv/contiv/api/contiv/feedback"
	"github.com/contiv/contiv/api/contiv/merge"
	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/internal/agent/health"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/lib/rest"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/kvscheduler/inspect"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/models"
)

// fixture holds the responses of an agent.
type fixture struct {
	nodes nodesync.NodesReport
	pods  ipnet.PodsReport
	// interfaces are InterfaceStates, as JSON.
	interfaces []json.RawMessage
	// ipam is nil for a node without an address.
	ipam *ipnet.IPAMReport
	// notReady is the reason why the agent is not ready, database why it has no etcd.
	notReady, database string
	// verdict and problems are a ready agent's report on its node.
	verdict  string
	problems []health.Problem
	events   []*controller.EventRecord
	txns     []*kvscheduler.RecordedTxn
	values   []record.Status
	dump     []kvscheduler.DumpedValue
	// explanations and timelines by key.
	explanations map[string]*inspect.Explanation
	timelines    map[string][]kvscheduler.Revision
	// contributions by key; feedback about values in etcd.
	contributions map[string]controller.Contributions
	feedback      []feedback.Status
	diff          []record.Diff
	graph         []*kvscheduler.ValueSnapshot
}

const container = "0d7a4e1bb2f94a3f8c6d5e7f8091a2b3c4d5e6f708192a3b4c5d6e7f80910d7a"

var (
	tap   = &vpp_interfaces.Interface{Name: "vpp-tap-" + container, Type: vpp_interfaces.Interface_TAP, Enabled: true, Mtu: 1450}
	route = &vpp_l3.Route{DstNetwork: "10.1.1.2/32", OutgoingInterface: tap.Name}
)

var (
	tapValue   = kvscheduler.ValueSnapshot{Key: models.Key(tap), Descriptor: "vpp-interface", Want: tap, Have: tap, State: pb.ValueState_CONFIGURED, LastOperation: pb.TxnOperation_CREATE, Txn: 1}
	routeValue = kvscheduler.ValueSnapshot{
		Key: models.Key(route), Descriptor: "vpp-route", Want: route, State: pb.ValueState_RETRYING, LastOperation: pb.TxnOperation_CREATE,
		Error: "network is unreachable", Txn: 1, Needs: []kvscheduler.Need{{Label: "interface-exists", Target: models.Key(tap)}},
	}
	routeLater = kvscheduler.ValueSnapshot{
		Key: models.Key(route), Descriptor: "vpp-route", State: pb.ValueState_CONFIGURED, LastOperation: pb.TxnOperation_UPDATE, Txn: 2,
		Want: &vpp_l3.Route{DstNetwork: "10.1.1.2/32", NextHopAddr: "10.1.1.1", Weight: 2},
	}
)

// routeDirectives holds merge directives for the route.
var routeDirectives = &merge.Directives{Key: models.Key(route), Unset: []string{"weight"}}

func at(seconds float64) time.Time {
	return time.Date(2026, 11, 20, 11, 31, 2, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

var fixtures = map[string]*fixture{
	"node1": {
		verdict:  health.Degraded,
		problems: []health.Problem{{Check: "values", Text: "1 value INVALID, such as config/vpp/v2/interfaces/bad: is no JSON; the value of revision 12 stays in force"}},
		nodes: nodesync.NodesReport{ThisNode: "node1", Nodes: []nodesync.NodeReport{
			{ID: 1, Name: "node1", VPPIPs: []string{"192.168.16.1/24"}, MgmtIPs: []string{"192.168.16.1"}, PodCIDRs: []string{"10.244.0.0/24"}},
			{ID: 2, Name: "node2", VPPIPs: []string{}, MgmtIPs: []string{"192.168.16.2"}},
			{Name: "node3", VPPIPs: []string{}, MgmtIPs: []string{}},
		}},
		interfaces: []json.RawMessage{
			[]byte(`{"name":"GigabitEthernet0/8/0","type":"DPDK","internalName":"GigabitEthernet0/8/0","adminStatus":"UP","operStatus":"DOWN","mtu":9000,"lastChange":"1767225600"}`),
			[]byte(`{"name":"tap1","type":"TAP","internalName":"c-tap1","ifIndex":7,"adminStatus":"UP","operStatus":"UP","lastChange":"1767225661",` +
				`"physAddress":"02:fe:00:00:00:01","speed":"10000000000","mtu":1450,"statistics":{"inPackets":"12","outPackets":"34","dropPackets":"5"}}`),
			[]byte(`{"name":"tap2","type":"TAP","adminStatus":"DOWN","operStatus":"DOWN","mtu":1450,"speed":"100000000","later":1}`),
		},
		pods: ipnet.PodsReport{Node: "node1", Pods: []ipnet.PodReport{
			{Name: "web", Namespace: "default", ContainerID: container, IPs: []string{"10.1.1.2/32", "fd00::2/128"}, MTU: 1450, VPPInterface: "vpp-tap-" + container,
				Keys: []string{models.Key(tap), models.Key(route)}},
			{Name: "db", Namespace: "prod", ContainerID: "short", IPs: []string{"10.1.1.3/32"}, MTU: 1450, VPPInterface: "vpp-tap-short"},
		}},
		ipam: &ipnet.IPAMReport{
			NodeID: 1, NodeName: "node1", NodeIP: "192.168.16.1/24", PodSubnetThisNode: "10.1.1.0/24", PodGateway: "10.1.1.1",
			VxlanIP: "192.168.30.1/24", PodIPsUsed: 2, PodIPsTotal: 252, Config: contivconf.IPAMConfig{PodSubnetCIDR: "10.1.0.0/16"},
		},
		events: []*controller.EventRecord{
			{
				SeqNum: 0, Enqueued: at(0), ProcessingStart: at(0.001), ProcessingEnd: at(0.021), Name: "Database Resync", Method: controller.FullResync,
				Description: "Database Resync from etcd: 4 Kubernetes values, 0 external values", Txn: &controller.TxnRecord{SeqNum: 0, Operations: 12, SouthboundTime: 15 * time.Millisecond},
			},
			{
				SeqNum: 1, Enqueued: at(1), ProcessingStart: at(1), ProcessingEnd: at(1.005), Name: "Add Pod", Description: "Add Pod default/web\ncontainer 0d7a",
				Method: controller.Update, Txn: &controller.TxnRecord{SeqNum: 1, Operations: 2, SouthboundTime: 4 * time.Millisecond},
				Handlers: []controller.HandlerRecord{{Handler: "podmanager"}, {Handler: "ipnet", Change: "configure IP connectivity"}},
			},
			{
				SeqNum: 2, Enqueued: at(2), ProcessingStart: at(2), ProcessingEnd: at(2.0001), Name: "Add Pod", Description: "Add Pod default/db", Method: controller.Update,
				IsFollowUp: true, FollowUpTo: 1, ErrorStr: "no IP address is free\nsecond line",
			},
		},
		txns: []*kvscheduler.RecordedTxn{
			{SeqNum: 0, Type: kvscheduler.NBTransaction, Resync: kvscheduler.FullResync, Start: at(0.002), Stop: at(0.02), Executed: []kvscheduler.RecordedOp{}},
			{
				SeqNum: 1, Type: kvscheduler.NBTransaction, Description: "Add Pod default/web", Start: at(1), Stop: at(1.0045), SouthboundTime: 4 * time.Millisecond,
				Values: []kvscheduler.KeyValue{{Key: models.Key(tap), Value: tap}, {Key: models.Key(route), Value: route}},
				Executed: []kvscheduler.RecordedOp{
					{Operation: pb.TxnOperation_CREATE, Key: models.Key(tap), Descriptor: "vpp-interface", NewState: pb.ValueState_CONFIGURED, NewValue: tap, Duration: 3 * time.Millisecond},
					{
						Operation: pb.TxnOperation_CREATE, Key: models.Key(route), Descriptor: "vpp-route", NewState: pb.ValueState_RETRYING, NewValue: route,
						NewErr: errors.New("network is unreachable"), Duration: time.Millisecond,
					},
				},
			},
			{SeqNum: 2, Type: kvscheduler.RetryFailedOps, RetryForTxn: 1, RetryAttempt: 1, Start: at(2), Stop: at(2.001), Executed: []kvscheduler.RecordedOp{
				{Operation: pb.TxnOperation_CREATE, Key: models.Key(route), NewState: pb.ValueState_CONFIGURED, NewValue: route, IsRetry: true},
			}},
			{SeqNum: 3, Type: kvscheduler.NBTransaction, Resync: kvscheduler.DownstreamResync, Description: "drift: route deleted", Start: at(3), Stop: at(3.001)},
			{SeqNum: 4, Type: kvscheduler.SBNotification, Start: at(4), Stop: at(4.000001)},
		},
		values: []record.Status{
			{BaseValueStatus: &pb.BaseValueStatus{
				Value:         &pb.ValueStatus{Key: models.Key(tap), State: pb.ValueState_CONFIGURED, LastOperation: pb.TxnOperation_CREATE},
				DerivedValues: []*pb.ValueStatus{{Key: "vpp/interface/unnumbered/vpp-tap-" + container, State: pb.ValueState_PENDING, Details: []string{"interface-with-ip"}}},
			}},
			{BaseValueStatus: &pb.BaseValueStatus{
				Value: &pb.ValueStatus{Key: models.Key(route), State: pb.ValueState_RETRYING, LastOperation: pb.TxnOperation_CREATE, Error: "network is unreachable"},
			}},
		},
		dump: []kvscheduler.DumpedValue{
			{Key: models.Key(tap), Descriptor: "vpp-interface", Value: tap, Metadata: map[string]any{"ifIndex": 7}, Origin: kvscheduler.FromNB, State: pb.ValueState_CONFIGURED},
			{Key: "linux/interface/host-name/eth0", Descriptor: "linux-interface-watcher", Origin: kvscheduler.FromSB, State: pb.ValueState_OBTAINED},
		},
		explanations: map[string]*inspect.Explanation{
			models.Key(route): {
				Key: models.Key(route), Summary: models.Key(route) + ": create failed: network is unreachable. Attempt 2 follows at 11:31:09.",
				Value: &routeValue, NextRetry: at(7),
				Needs: []inspect.ExplainedNeed{
					{Need: kvscheduler.Need{Label: "interface-exists", Target: models.Key(tap)}, Met: true, By: []string{models.Key(tap)}},
					{Need: kvscheduler.Need{Label: "vrf", Target: "any of vpp/vrf/*"}, Waiting: []inspect.KeyState{{Key: "vpp/vrf/0", State: pb.ValueState_PENDING}}},
					{Need: kvscheduler.Need{Label: "next-hop", Target: "x/hop1"}, Similar: []string{"x/hop2"}},
				},
			},
		},
		contributions: map[string]controller.Contributions{
			models.Key(route): {
				Key: models.Key(route),
				Sources: []controller.Contribution{
					{Source: controller.InternalSource, Wants: kvscheduler.KeyValue{Key: models.Key(route), Value: route}},
					{Source: controller.DatabaseSource, Wants: kvscheduler.KeyValue{Key: models.Key(routeDirectives), Value: routeDirectives}},
					{Source: "contiv-grpc/cnf", Wants: kvscheduler.KeyValue{Key: models.Key(route), Value: &vpp_l3.Route{DstNetwork: "10.1.1.2/32", Preference: 7}}},
				},
				Result: kvscheduler.KeyValue{Key: models.Key(route), Value: &vpp_l3.Route{DstNetwork: "10.1.1.2/32", OutgoingInterface: tap.Name, Preference: 7}},
			},
		},
		feedback: []feedback.Status{
			{ValueStatus: &feedbackpb.ValueStatus{
				Value:    &pb.ValueStatus{Key: "config/vpp/v2/interfaces/bad", State: pb.ValueState_INVALID, Error: "is no JSON", Details: []string{"the value of revision 12 stays in force"}},
				Revision: 14, InForce: 12,
			}},
			{ValueStatus: &feedbackpb.ValueStatus{
				Value: &pb.ValueStatus{Key: models.Key(route), State: pb.ValueState_RETRYING}, Revision: 15, Warnings: []string{`unknown field "nxt" is left out`},
			}},
			{ValueStatus: &feedbackpb.ValueStatus{
				Value: &pb.ValueStatus{Key: "config/contiv/v1/merge/config/vpp/v2/interfaces/eth9", State: pb.ValueState_CONFIGURED}, Revision: 16,
			}},
		},
		timelines: map[string][]kvscheduler.Revision{
			models.Key(route): {
				{Txn: 1, Since: at(1), Until: at(2), Value: &routeValue},
				{Txn: 2, Since: at(2), Until: at(3), Value: &routeLater},
				{Txn: 3, Since: at(3)},
			},
		},
		diff: []record.Diff{
			{Key: models.Key(tap), To: &tapValue},
			{Key: models.Key(route), From: &routeValue, To: &routeLater},
			{Key: "x/gone", From: &kvscheduler.ValueSnapshot{Key: "x/gone", State: pb.ValueState_CONFIGURED}},
		},
		graph: []*kvscheduler.ValueSnapshot{&tapValue, &routeValue, {Key: "x/other", State: pb.ValueState_CONFIGURED}},
	},
	"node2": {
		nodes: nodesync.NodesReport{ThisNode: "node2", Nodes: []nodesync.NodeReport{
			{ID: 1, Name: "node1", VPPIPs: []string{}, MgmtIPs: []string{}},
			{ID: 2, Name: "node2", VPPIPs: []string{"192.168.16.2/24"}, MgmtIPs: []string{"192.168.16.2"}},
		}},
		pods:     ipnet.PodsReport{Node: "node2", Pods: []ipnet.PodReport{}},
		notReady: "startup resync is not done yet",
		database: "etcd is not reached",
		events:   []*controller.EventRecord{},
		txns:     []*kvscheduler.RecordedTxn{},
	},
}

// ServeHTTP answers like an agent.
func (f *fixture) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch r.URL.Path {
	case "/readiness":
		h := struct {
			Version                  string
			Error, Database, Verdict string           `json:",omitempty"`
			Problems                 []health.Problem `json:",omitempty"`
		}{Version: "v1.2", Error: f.notReady, Database: f.database}
		if q.Has("verbose") {
			h.Problems, h.Verdict = f.problems, f.verdict
		}
		status := http.StatusOK
		if f.notReady != "" {
			status = http.StatusServiceUnavailable
		}
		rest.Answer(w, status, h)
	case nodesync.NodesURL:
		rest.JSON(w, f.nodes)
	case ipnet.PodsURL:
		rest.JSON(w, f.pods)
	case ifstate.URL:
		rest.JSON(w, ifstate.Report{Interfaces: f.interfaces})
	case ipnet.IPAMURL:
		if f.ipam == nil {
			rest.Error(w, http.StatusInternalServerError, errors.New("this node has no IP address yet"))
			return
		}
		rest.JSON(w, f.ipam)
	case "/controller/event-history":
		history(w, r, f.events, func(e *controller.EventRecord) uint64 { return e.SeqNum })
	case "/scheduler/txn-history":
		history(w, r, f.txns, func(t *kvscheduler.RecordedTxn) uint64 { return t.SeqNum })
	case "/scheduler/explain":
		e := f.explanations[q.Get("key")]
		if e == nil {
			e = &inspect.Explanation{Key: q.Get("key")}
		}
		rest.JSON(w, e)
	case "/controller/contributions":
		contributions, ok := f.contributions[q.Get("key")]
		if !ok {
			contributions = controller.Contributions{Key: q.Get("key"), Result: kvscheduler.KeyValue{Key: q.Get("key")}}
		}
		rest.JSON(w, contributions)
	case feedback.URL:
		statuses := []feedback.Status{}
		for _, s := range f.feedback {
			if key := q.Get("key"); key == "" || key == s.GetValue().GetKey() {
				statuses = append(statuses, s)
			}
		}
		rest.JSON(w, statuses)
	case "/scheduler/key-timeline":
		rest.JSON(w, append([]kvscheduler.Revision{}, f.timelines[q.Get("key")]...))
	case "/scheduler/diff":
		rest.JSON(w, append([]record.Diff{}, f.diff...))
	case "/scheduler/graph-snapshot":
		rest.JSON(w, f.graph)
	case "/scheduler/stats":
		rest.JSON(w, kvscheduler.Stats{Since: at(0)})
	case "/scheduler/plan":
		f.servePlan(w, r)
	case "/scheduler/downstream-resync":
		if r.Method != http.MethodPost || len(f.txns) == 0 {
			rest.JSON(w, &kvscheduler.RecordedTxn{Resync: kvscheduler.DownstreamResync})
			return
		}
		rest.JSON(w, f.txns[1])
	case "/controller/resync":
		if f.database != "" {
			rest.Error(w, http.StatusServiceUnavailable, errors.New(f.database))
			return
		}
		rest.JSON(w, "dispatched")
	case "/scheduler/status":
		f.serveStatus(w, r)
	case "/scheduler/dump":
		if len(q) == 0 {
			rest.JSON(w, inspect.DumpIndex{Descriptors: []string{"vpp-interface", "vpp-route"}, KeyPrefixes: []string{"config/vpp/v2/interfaces/"}})
			return
		}
		if d := q.Get("descriptor"); d != "" && !strings.HasPrefix(d, "vpp-") {
			rest.Error(w, http.StatusNotFound, errors.New("unknown descriptor \""+d+"\""))
			return
		}
		out := []kvscheduler.DumpedValue{}
		for _, v := range f.dump {
			if strings.HasPrefix(v.Key, q.Get("key-prefix")) && (q.Get("descriptor") == "" || q.Get("descriptor") == v.Descriptor) {
				out = append(out, v)
			}
		}
		rest.JSON(w, out)
	default:
		http.NotFound(w, r)
	}
}

// servePlan plans the creation of all values, and nothing for deletions.
func (f *fixture) servePlan(w http.ResponseWriter, r *http.Request) {
	var request inspect.PlanRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil {
		rest.Error(w, http.StatusBadRequest, err)
		return
	}
	reply := inspect.PlanReply{Planned: []kvscheduler.RecordedOp{}}
	for _, kv := range request.Values {
		if kv.Value != nil {
			reply.Planned = append(reply.Planned, kvscheduler.RecordedOp{
				Operation: pb.TxnOperation_CREATE, Key: kv.Key, NewState: pb.ValueState_CONFIGURED, NewValue: kv.Value,
			})
		}
	}
	if request.ResyncType == "FullResync" {
		reply.Error = "a full resync was asked for"
	}
	rest.JSON(w, reply)
}

func (f *fixture) serveStatus(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	out := []record.Status{}
	if key := q.Get("key"); key != "" {
		found := record.Status{BaseValueStatus: &pb.BaseValueStatus{Value: &pb.ValueStatus{Key: key}}}
		for _, v := range f.values {
			if v.GetValue().GetKey() == key {
				found = v
			}
		}
		rest.JSON(w, found)
		return
	}
	for _, v := range f.values {
		state := q.Get("state")
		if strings.HasPrefix(v.GetValue().GetKey(), q.Get("key-prefix")) && (state == "" || state == v.GetValue().GetState().String()) {
			out = append(out, v)
		}
	}
	rest.JSON(w, out)
}

// history returns records like the agent's histories.
func history[R any](w http.ResponseWriter, r *http.Request, records []*R, seqNum func(*R) uint64) {
	q := r.URL.Query()
	if q.Has("seq-num") {
		for _, record := range records {
			if strconv.FormatUint(seqNum(record), 10) == q.Get("seq-num") {
				rest.JSON(w, record)
				return
			}
		}
		rest.Error(w, http.StatusNotFound, errors.New("#"+q.Get("seq-num")+" is not recorded"))
		return
	}
	// The fixture ignores time ranges; other tests cover them.
	if last, err := strconv.Atoi(q.Get("last")); err == nil && last < len(records) {
		records = records[len(records)-last:]
	}
	rest.JSON(w, records)
}
