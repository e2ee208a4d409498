package kubernetes

import (
	"testing"

	"go.uber.org/goleak"
	_ "k8s.io/client-go/kubernetes/fake"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
