package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"time"

	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/client"
	"github.com/contiv/contiv/client/clienttest"
	etcdserver "github.com/contiv/contiv/internal/etcd/server"
	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/models"
)

var uplink = &vpp_interfaces.Interface{
	Name: "uplink", Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{"10.1.0.2/24"},
}

var defaultRoute = &vpp_l3.Route{DstNetwork: "0.0.0.0/0", NextHopAddr: "10.1.0.1", OutgoingInterface: "uplink"}

// An interface and a route, all or nothing, over gRPC.
func Example() {
	agent, err := clienttest.Start(clienttest.Options{}) // on a node, the agent is running
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()
	ctx := context.Background()

	c, err := client.DialGRPC(agent.Address, client.GRPC{Name: "router"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	result, err := c.Txn().Put(uplink, defaultRoute).Revert().Commit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	statuses, err := c.Wait(ctx, result.Keys...)
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range statuses {
		fmt.Println(s.GetValue().GetKey(), client.Explain(s))
	}
	// Output:
	// config/vpp/v2/interfaces/uplink CONFIGURED
	// config/vpp/v2/route/if/uplink/vrf/0/dst/0.0.0.0/0/gw/10.1.0.1 CONFIGURED
}

// The same through etcd.
func ExampleNewEtcd() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	server, err := etcdserver.Start(ctx, etcdserver.Options{
		DataDir: dir, ClientURLs: []string{"http://127.0.0.1:0"}, PeerURL: "http://127.0.0.1:0", UnsafeNoSync: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	agent, err := clienttest.Start(clienttest.Options{Etcd: []string{server.Endpoint()}})
	if err != nil {
		log.Fatal(err)
	}
	defer agent.Close()

	c, err := client.NewEtcd("node1", etcd.Config{Endpoints: []string{server.Endpoint()}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Txn().Put(uplink, defaultRoute).Commit(ctx); err != nil {
		log.Fatal(err)
	}
	values, err := c.Get(ctx, models.VPPRoute.KeyPrefix())
	if err != nil {
		log.Fatal(err)
	}
	for _, v := range values {
		fmt.Println(v.Key)
	}
	// Output:
	// config/vpp/v2/route/if/uplink/vrf/0/dst/0.0.0.0/0/gw/10.1.0.1
}

// The error has the key, operation and cause of each failure. With Revert, nothing else was
// changed.
func ExampleTransactionError() {
	c, done := dialExample()
	defer done()

	_, err := c.Txn().Put(uplink, &vpp_interfaces.Interface{Name: "bad"}).Revert().Commit(context.Background())
	if e, ok := errors.AsType[*client.TransactionError](err); ok {
		for _, item := range e.Items {
			fmt.Printf("%v of %s: %s\n", item.GetOperation(), item.GetKey(), item.GetCause())
		}
		fmt.Println("nothing was changed:", e.Reverted)
	}
	// Output:
	// CREATE of config/vpp/v2/interfaces/bad: no such device
	// nothing was changed: true
}

// A value with an unmet dependency is not a failure; Wait returns the dependency.
func ExampleClient_Wait() {
	c, done := dialExample()
	defer done()
	ctx := context.Background()

	result, err := c.Txn().Put(defaultRoute).Commit(ctx)
	if err != nil {
		log.Fatal(err)
	}
	soon, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err = c.Wait(soon, result.Keys...); err != nil {
		if e, ok := errors.AsType[*client.UnsettledError](err); ok {
			fmt.Println(e.Statuses[0].GetWaitsFor()[0])
		}
	}
	if _, err := c.Txn().Put(uplink).Commit(ctx); err != nil {
		log.Fatal(err)
	}
	statuses, err := c.Wait(ctx, result.Keys...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(client.Explain(statuses[0]))
	// Output:
	// interface-exists: config/vpp/v2/interfaces/uplink
	// CONFIGURED
}

// Follow the changes of states.
func ExampleClient_WatchStatus() {
	c, done := dialExample()
	defer done()
	ctx := context.Background()

	key := models.Key(uplink)
	for s, err := range c.WatchStatus(ctx, key) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(client.Explain(s))
		if client.Explain(s) == "CONFIGURED" {
			break
		}
		if _, err := c.Txn().Put(uplink).Commit(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// NONEXISTENT
	// CONFIGURED
}

// dialExample returns a client of an agent in memory.
func dialExample() (c *client.Client, done func()) {
	agent, err := clienttest.Start(clienttest.Options{})
	if err != nil {
		log.Fatal(err)
	}
	c, err = client.DialGRPC(agent.Address, client.GRPC{})
	if err != nil {
		log.Fatal(err)
	}
	return c, func() { c.Close(); agent.Close() }
}
