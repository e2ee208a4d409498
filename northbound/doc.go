// Package northbound serves the agent's gRPC API: the services that configure the
// vswitch from outside, of Contiv (package contivgrpc) and of the ligato vpp-agent.
//
//	contiv clients ──rpc.DataChangeService, DataResyncService──> contivgrpc ──┐
//	ligato clients ──generic.ManagerService ───────┐                          ├──> event loop
//	agentctl       ──configurator.Configurator… ───┴─> contivgrpc.Apply ──────┘
//	               ──generic.MetaService ─────────────> models
//	               <─Get, Notify, Dump, Subscribe ────── event loop, KVScheduler
//	               <─Notify, StatsPollerService ──────── states of interfaces (ifstate)
//
// rpc.StatusService tells the states of all values, and their changes, to clients of
// both kinds. Ligato's services behave as those of the vpp-agent, with these differences: changes
// are saved when they are accepted; the metadata "contiv-revert: true" makes them all
// or nothing; failures carry a rpc.TransactionError; Subscribe is implemented; Dump
// has all kinds of values and fails if it cannot read one of them. What a client
// wants is kept under the name in the metadata "datasrc", "grpc" without.
package northbound
