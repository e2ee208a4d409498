package etcd_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/contiv/contiv/internal/etcd/store/etcd"
	"github.com/contiv/contiv/internal/etcd/store/etcd/etcdtest"
	"github.com/contiv/contiv/test/loopback"
)

func host(server *etcdtest.Server) string {
	return strings.TrimPrefix(server.Endpoint(), "http://")
}

// The file may be created after the client, and members may move.
func TestMembersAreWhereTheEndpointsFileSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "endpoints")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	s, err := etcd.New(etcd.Config{Endpoints: []string{"http://" + loopback.Address()}, EndpointsFile: file})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	reached := func(what string) {
		t.Helper()
		for {
			_, _, err := s.Get(t.Context(), "/x")
			if err == nil {
				return
			}
			if t.Context().Err() != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
	if _, _, err := s.Get(t.Context(), "/x"); err == nil {
		t.Fatal("etcd is reached at an address where nothing listens")
	}
	first := etcdtest.Start(t)
	write("not an address", loopback.Address(), "", host(first))
	reached("the file is there")

	second := etcdtest.Start(t)
	write(host(second))
	first.Stop()
	reached("etcd has moved")
}

func TestEndpointsAreTriedWhenNoMemberOfTheFileAnswers(t *testing.T) {
	server := etcdtest.Start(t)
	s, err := etcd.New(etcd.Config{Endpoints: []string{server.Endpoint()}, Locate: func(context.Context) ([]string, error) {
		return []string{loopback.Address()}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, _, err := s.Get(t.Context(), "/x"); err != nil {
		t.Error(err)
	}
}

func TestEndpointsFileNeedsTheNameOfTheServer(t *testing.T) {
	_, err := etcd.New(etcd.Config{Endpoints: []string{"https://192.168.16.1:32379"}, EndpointsFile: "/run/contiv-etcd/endpoints"})
	if err == nil || !strings.Contains(err.Error(), "needs server-name") {
		t.Errorf("got %v", err)
	}
}
