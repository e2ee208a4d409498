// Package ifstate collects the states of the vswitch's interfaces and publishes them:
//
//	vswitch ──Changed──> Keeper ──┬──> observers (Notify of ligato's configurator)
//	        <──Read─────          ├──> etcd: <node>/vpp/status/v2/interface/<name>
//	                              └──> REST: GET /contiv/v1/interfaces
//
// The vswitch reports changes. In addition, the Keeper reads all states every PollPeriod, which
// covers lost events and states from before the subscription.
//
// Guarantees:
//
//   - The last state of an interface always reaches etcd, after a moment without changes or after one
//     second. Intermediate states may be skipped. Counters date from the last change; counters alone
//     do not count as a change.
//   - Once the agent knows all interfaces, it deletes the states of missing interfaces from etcd,
//     including those of a former run.
//   - Reporting never waits for etcd. Failed writes are retried.
package ifstate
