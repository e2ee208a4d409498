package standalone

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/contiv/rpc"
	linux_interfaces "github.com/contiv/contiv/api/ligato/linux/interfaces"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	vpp_l3 "github.com/contiv/contiv/api/ligato/vpp/l3"
	"github.com/contiv/contiv/test/await"
	"github.com/contiv/contiv/test/labtest"
)

// Directories of testdata/older are named after versions. Each has the files left by an agent of
// that version, and values.json with its requested values. This version must read the files of all
// of them.
var keepFiles = flag.String("keep-files", "", "write the files of this version to testdata/older/NAME; give the commit as name")

const olderDir = "testdata/older"

// localFiles lists the files of an agent without database. test/integration reads mirrors of etcd.
var localFiles = []string{"grpc.db"}

func olderValues() *rpc.DataRequest {
	return &rpc.DataRequest{
		Client: "older",
		Interfaces: []*vpp_interfaces.Interface{
			loopback("old-loop", "10.60.0.1/24"),
			{Name: "old-tap", Type: vpp_interfaces.Interface_TAP, Enabled: true, IpAddresses: []string{"10.61.0.1/24"}, Link: &vpp_interfaces.Interface_Tap{Tap: &vpp_interfaces.TapLink{Version: 2}}},
		},
		StaticRoutes:    []*vpp_l3.Route{{DstNetwork: "10.62.0.0/16", NextHopAddr: "10.60.0.2", OutgoingInterface: "old-loop"}},
		LinuxInterfaces: []*linux_interfaces.Interface{{Name: "old-veth", Type: linux_interfaces.Interface_VETH, Link: &linux_interfaces.Interface_Veth{Veth: &linux_interfaces.VethLink{PeerIfName: "nobody"}}}},
	}
}

// Configuration accepted and saved by agents of older versions is in force when this version starts
// with their files.
func TestFilesOfOlderVersions(t *testing.T) {
	if *keepFiles != "" {
		keep(t, *keepFiles)
	}
	versions, err := filepath.Glob(olderDir + "/*")
	if err != nil || len(versions) == 0 {
		t.Fatalf("no files of older versions: %v", err)
	}
	for _, dir := range versions {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			s := newSite(t)
			for _, name := range localFiles {
				labtest.Unpack(t, filepath.Join(dir, name+".gz"), s.path(name))
			}
			data, err := os.ReadFile(filepath.Join(dir, "values.json"))
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			if err := json.Unmarshal(data, &keys); err != nil {
				t.Fatal(err)
			}
			s.start()
			await.That(t, "the saved configuration is in force", func() error {
				if got := s.wantedKeys(); !slices.Equal(got, keys) {
					return fmt.Errorf("got %q, want %q", got, keys)
				}
				return nil
			})
			if addresses, routes := s.ip("-br", "addr"), s.ip("route"); !strings.Contains(addresses, "10.60.0.1/24") || !strings.Contains(routes, "10.62.0.0/16 via 10.60.0.2") {
				t.Errorf("on the node: %s%s", addresses, routes)
			}
			if strings.Contains(s.log.String(), "damaged") {
				t.Error("the log reports damage")
			}
		})
	}
}

// wantedKeys returns the keys requested by clients, sorted.
func (s *site) wantedKeys() []string {
	s.t.Helper()
	response, err := s.rest().Get("http://agent/scheduler/dump?view=NB&key-prefix=config/")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	var values []struct{ Key string }
	if err := json.NewDecoder(response.Body).Decode(&values); err != nil {
		s.t.Fatal(err)
	}
	keys := []string{}
	for _, v := range values {
		keys = append(keys, v.Key)
	}
	slices.Sort(keys)
	return keys
}

// keep runs an agent that writes the files.
func keep(t *testing.T, version string) {
	s := newSite(t)
	s.start()
	s.put(olderValues())
	keys := s.wantedKeys()
	s.stop()
	dir := filepath.Join(olderDir, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range localFiles {
		labtest.Pack(t, s.path(name), filepath.Join(dir, name+".gz"))
	}
	data, err := json.MarshalIndent(keys, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "values.json"), append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}
