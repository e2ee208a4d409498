// Package client configures the vswitch of a node with values of the northbound API, over gRPC or
// etcd:
//
//	c, err := client.DialGRPC("unix:///var/run/contiv/grpc.sock", client.GRPC{Name: "router"})
//	defer c.Close()
//	result, err := c.Txn().
//		Put(tap, route).
//		Delete(oldRoute).
//		Revert().
//		Commit(ctx)             // final: done, or a *TransactionError
//	statuses, err := c.Wait(ctx, result.Keys...) // settled: CONFIGURED, or failed
//
// Each Commit is one transaction of the agent. The transports differ:
//
//	                        gRPC                                etcd
//	values belong to        the client, by its name             all writers of etcd
//	Commit returns          when the transaction is final       when its statuses are final;
//	                                                            with Async, once written
//	the agent is down       the call fails                      applied when it is up again
//	Revert                  all or nothing                      impossible: ErrNoRevert
//	maximum size            64 MB                               128 changes (max-txn-ops of etcd)
//	Result                  event and transaction               revision and transaction
//
// A value with an unmet dependency is PENDING, which is not a failure. Wait waits until values are
// configured, and WatchStatus follows them. The agent retries failed values unless the transaction
// was reverted.
package client
