package controller_test

import (
	"testing"

	"github.com/contiv/contiv/internal/controller"
)

func TestTextOfDatabaseResync(t *testing.T) {
	for want, e := range map[string]*controller.DBResync{
		"Database Resync without a database":                                        {},
		"Database Resync from etcd: 0 Kubernetes values, 0 external values":         {State: controller.KubeState{}},
		"Database Resync from local mirror: 0 Kubernetes values, 0 external values": {Local: true, External: controller.ExternalConfig{}},
	} {
		if got := e.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
