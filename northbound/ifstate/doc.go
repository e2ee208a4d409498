// Package ifstate knows the states of the interfaces of the vswitch, and tells them:
//
//	vswitch ──Changed──> Keeper ──┬──> observers (Notify of ligato's configurator)
//	        <──Read─────          ├──> etcd: <node>/vpp/status/v2/interface/<name>
//	                              └──> REST: GET /contiv/v1/interfaces
//
// The vswitch reports changes; every PollPeriod, all states are read as well, which finds states
// older than the subscription and lost events.
//
// Promises:
//
//   - The last state of an interface always arrives in etcd, when nothing has changed for a
//     moment, or after a second; states between may be left out. Counters are those of the time of the change: they alone are no change.
//   - What etcd holds of interfaces that are not there, also of a former run, is
//     removed, but not before the agent knows all interfaces.
//   - Nobody waits for etcd: what cannot be written now is written later.
package ifstate
