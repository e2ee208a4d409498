// Package client configures the vswitch of a node from outside, with the values of the
// northbound API, over gRPC or etcd:
//
//	c, err := client.DialGRPC("unix:///var/run/contiv/grpc.sock", client.GRPC{Name: "router"})
//	defer c.Close()
//	result, err := c.Txn().
//		Put(tap, route).
//		Delete(oldRoute).
//		Revert().
//		Commit(ctx)             // final: done, or a *TransactionError
//	statuses, err := c.Wait(ctx, result.Keys...) // settled: CONFIGURED, or never
//
// Each Commit is one transaction of the agent. Where the transports differ:
//
//	                        gRPC                                etcd
//	values belong to        the client, by its name             all who write to etcd
//	a transaction           returns when it is final            is written, then its statuses are
//	                                                            awaited; Async does not wait
//	the agent is down       the call fails                      it does it when it comes back
//	Revert                  all or nothing                      impossible: ErrNoRevert
//	how much                64 MB                               128 changes (max-txn-ops of etcd)
//	Result                  event and transaction               revision and transaction
//
// On both, values that wait for something are PENDING, which is no failure; Wait waits
// until they are configured, and WatchStatus follows them. What failed is tried
// again by the agent, unless it was reverted.
package client
