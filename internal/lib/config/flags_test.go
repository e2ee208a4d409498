package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/contiv/contiv/internal/lib/config"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
)

type flagged struct {
	DelayRetry   config.Duration `json:"delayRetry"`
	EnableRetry  bool            `json:"enableRetry"`
	RemoteDBName string          `json:"remoteDBName"`
	Attempts     int             `json:"attempts"`
	IPAM         struct {
		PodSubnetCIDR string `json:"podSubnetCIDR"`
		PrefixLen     uint8  `json:"prefixLen"`
	} `json:"ipamConfig"`
	Interfaces []string `json:"interfaces"`
	Nodes      []node   `json:"nodeConfig"`
}

func TestFlagsOverrideTheFile(t *testing.T) {
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	overrides := config.Flags(fs, "net", &flagged{})
	err := fs.Parse([]string{
		"--net-delay-retry=2s", "--net-enable-retry", "--net-remote-db-name", "5",
		"--net-ipam-config-pod-subnet-cidr=10.1.0.0/16", "--net-interfaces=[a, b]",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got flagged
	if err := config.Load([]byte("delayRetry: 1s\nattempts: 3\nipamConfig: {podSubnetCIDR: x, prefixLen: 24}"), &got); err != nil {
		t.Fatal(err)
	}
	if err := overrides.Apply(&got); err != nil {
		t.Fatal(err)
	}
	want := flagged{DelayRetry: config.Duration(2 * time.Second), EnableRetry: true, RemoteDBName: "5", Attempts: 3, Interfaces: []string{"a", "b"}}
	want.IPAM.PodSubnetCIDR, want.IPAM.PrefixLen = "10.1.0.0/16", 24
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestFlagErrors(t *testing.T) {
	for flag, want := range map[string]string{
		"--net-delay-retry=soon":           "a duration is expected",
		"--net-attempts=many":              `value of "attempts" is "many": a whole number is expected`,
		"--net-ipam-config-prefix-len=300": "prefixLen",
		"--net-attempts=":                  "a value is missing",
		"--net-node-config=[]":             "unknown flag",
	} {
		fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
		config.Flags(fs, "net", &flagged{})
		if err := fs.Parse([]string{flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", flag, err, want)
		}
	}
}
