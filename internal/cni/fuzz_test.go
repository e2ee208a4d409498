package cni

import (
	"errors"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
)

func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.1.0","name":"n","type":"contiv-cni","grpcServer":"/run/x","ipam":{"type":"host-local"}}`))
	f.Add([]byte(`{"cniVersion":"0.3.1","prevResult":{"cniVersion":"0.3.1","ips":[{"version":"4","address":"10.0.0.1/24"}]}}`))
	f.Add([]byte(`{"cniVersion":5,`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConfig(data)
		if err != nil {
			if e := (*types.Error)(nil); !errors.As(err, &e) || e.Code == 0 || e.Msg == "" {
				t.Errorf("error %v", err)
			}
			return
		}
		if c.GRPCServer == "" || c.CNIVersion == "" {
			t.Errorf("accepted: %+v", c)
		}
		_, _ = c.validAttachments()
	})
}
