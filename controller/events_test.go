package controller_test

import (
	"testing"

	"github.com/contiv/contiv/controller"
)

// The text of a resync says where its values came from, if from anywhere.
func TestTextOfDatabaseResync(t *testing.T) {
	for want, e := range map[string]*controller.DBResync{
		"Database Resync: there is no database":                                     {},
		"Database Resync from etcd: 0 Kubernetes values, 0 external values":         {State: controller.KubeState{}},
		"Database Resync from local mirror: 0 Kubernetes values, 0 external values": {Local: true, External: controller.ExternalConfig{}},
	} {
		if got := e.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
