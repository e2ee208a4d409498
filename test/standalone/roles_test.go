package standalone

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/contiv/contiv/api/ligato/generic"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/client/clienttest"
	"github.com/contiv/contiv/internal/lib/listener"
	"github.com/contiv/contiv/internal/lib/listener/listenertest"
	"github.com/contiv/contiv/kvscheduler/record"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// A client with read access cannot make changes and sees no secrets. Changes are logged with the
// client and the transaction, without secrets.
func TestRolesOfClients(t *testing.T) {
	a := listenertest.NewAuthority(t)
	cert, key := a.Issue("server")
	options := listener.Options{CertFile: cert, KeyFile: key, ClientCAFile: a.CAFile()}
	socket := "unix://" + filepath.Join(t.TempDir(), "grpc.sock")
	for _, test := range []struct {
		name, address string
		tls           *tls.Config
		role          listener.Role
		who           string
	}{
		{"configure", "127.0.0.1:0", a.Client("ops", "contiv:configure"), listener.Configure, "certificate of ops"},
		{"read", "127.0.0.1:0", a.Client("auditor", "contiv:read"), listener.Read, "certificate of auditor"},
		{"no role", "127.0.0.1:0", a.Client("kubelet", "system:nodes"), listener.Nothing, "certificate of kubelet"},
		{"socket", socket, nil, listener.Configure, "user 0, process "},
	} {
		t.Run(test.name, func(t *testing.T) {
			l, err := options.ListenTrusted(test.address)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			agent, err := clienttest.Start(clienttest.Options{Listener: l, Clients: options.Client, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			creds, address := insecure.NewCredentials(), agent.Address
			if test.tls != nil {
				creds, address = credentials.NewTLS(test.tls), "passthrough:"+address
			}
			conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(creds))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			manager := generic.NewManagerServiceClient(conn)
			allowed := func(err error, needs listener.Role) {
				t.Helper()
				if test.role >= needs && err != nil || test.role < needs && status.Code(err) != codes.PermissionDenied {
					t.Errorf("role %d, which needs to be %d: %v", test.role, needs, err)
				}
			}
			memif := &vpp_interfaces.Interface{Name: "m", Type: vpp_interfaces.Interface_MEMIF, Link: &vpp_interfaces.Interface_Memif{
				Memif: &vpp_interfaces.MemifLink{SocketFilename: "/run/m.sock", Secret: canary},
			}}
			_, err = manager.SetConfig(t.Context(), &generic.SetConfigRequest{Updates: []*generic.UpdateItem{{Item: itemOf(t, memif)}}})
			allowed(err, listener.Configure)
			answer, err := manager.GetConfig(t.Context(), &generic.GetConfigRequest{})
			allowed(err, listener.Read)
			if shows := strings.Contains(answer.String(), canary); test.role == listener.Configure && !shows || test.role < listener.Configure && shows {
				t.Errorf("it sees %s", answer)
			}
			if err := agent.Close(); err != nil {
				t.Error(err)
			}

			line := log.String()
			want := []string{`msg="Change requested" client="` + test.who, `request=/ligato.generic.ManagerService/SetConfig status=OK`, " transaction="}
			if test.role < listener.Configure {
				want = []string{`msg="Request refused" client="` + test.who}
			}
			if strings.Count(line, "\n") != 1 || slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(line, text) }) {
				t.Errorf("the log says %q, want one line with %q", line, want)
			}
			if strings.Contains(line, canary) {
				t.Errorf("the log contains a secret: %s", line)
			}
		})
	}
}

// itemOf returns a value in the form of ligato's clients.
func itemOf(t *testing.T, value proto.Message) *generic.Item {
	t.Helper()
	data, err := anypb.New(value)
	if err != nil {
		t.Fatal(err)
	}
	return &generic.Item{Data: &generic.Data{Union: &generic.Data_Any{Any: data}}}
}

// Values inside ligato's items are also redacted for reading clients.
func TestItemsAreRedacted(t *testing.T) {
	item := itemOf(t, &vpp_interfaces.Interface{Name: "m", Link: &vpp_interfaces.Interface_Memif{Memif: &vpp_interfaces.MemifLink{Secret: canary, Id: 7}}})
	secretOf := func(item *generic.Item) *vpp_interfaces.MemifLink {
		value, err := item.GetData().GetAny().UnmarshalNew()
		if err != nil {
			t.Fatal(err)
		}
		return value.(*vpp_interfaces.Interface).GetMemif()
	}
	request := &generic.SetConfigRequest{Updates: []*generic.UpdateItem{{Item: item}}}
	shown := record.Redact(request).(*generic.SetConfigRequest)
	if memif := secretOf(shown.Updates[0].Item); memif.Secret != record.Redacted || memif.Id != 7 {
		t.Errorf("shown: %v", memif)
	}
	if secretOf(item).Secret != canary {
		t.Error("the item itself was changed")
	}
}
