// Package northbound serves the agent's gRPC API for external configuration. It implements the
// services of Contiv (package contivgrpc) and of the ligato vpp-agent.
//
//	contiv clients ──rpc.DataChangeService, DataResyncService──> contivgrpc ──┐
//	ligato clients ──generic.ManagerService ───────┐                          ├──> event loop
//	agentctl       ──configurator.Configurator… ───┴─> contivgrpc.Apply ──────┘
//	               ──generic.MetaService ─────────────> models
//	               <─Get, Notify, Dump, Subscribe ────── event loop, KVScheduler
//	               <─Notify, StatsPollerService ──────── states of interfaces (ifstate)
//
// rpc.StatusService sends the states of all values, and their changes, to clients of both kinds.
// Ligato's services behave as in the vpp-agent, with these differences:
//
//   - Accepted changes are saved.
//   - The metadata "contiv-revert: true" makes a change atomic.
//   - Failures carry a rpc.TransactionError.
//   - Subscribe is implemented.
//   - Dump covers all kinds of values and fails if one of them cannot be read.
//
// A client's values are stored under the name in the metadata "datasrc". The default is "grpc".
package northbound
