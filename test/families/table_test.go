package families

import (
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	pb "github.com/contiv/contiv/api/ligato/kvscheduler"
	vpp_interfaces "github.com/contiv/contiv/api/ligato/vpp/interfaces"
	"github.com/contiv/contiv/internal/vswitch/descriptors"
	"github.com/contiv/contiv/internal/vswitch/vpp"
	"github.com/contiv/contiv/internal/vswitch/vpp/vpptest"
	"github.com/contiv/contiv/kvscheduler"
	"github.com/contiv/contiv/models"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var update = flag.Bool("update", false, "write the table of docs/reference/keys.md")

// page has the table between the two marks.
const (
	page     = "../../docs/reference/keys.md"
	begin    = "<!-- The table is written by `go test ./test/families -run Table -update`. -->\n"
	end      = "<!-- end of the table -->\n"
	yes      = "yes"
	refusing = "no: "
)

// answer is the support of a model or field.
type answer struct{ kernel, vpp, probe string }

// answers holds the answers other than yes, by "<model>" and "<model>.<field>".
func answers(t testing.TB) map[string]answer {
	t.Helper()
	text, err := os.ReadFile("testdata/answers.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]answer{}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " | ", 4)
		if len(parts) == 3 {
			parts[2] = strings.TrimSuffix(parts[2], " |")
			parts = append(parts, "")
		}
		if len(parts) != 4 || all[parts[0]] != (answer{}) {
			t.Fatalf("answers.txt: %q", line)
		}
		all[parts[0]] = answer{parts[1], parts[2], parts[3]}
	}
	return all
}

// The table has a row per model with its key, and per field that differs from its model in answers.txt.
func TestTable(t *testing.T) {
	left := answers(t)
	var table strings.Builder
	table.WriteString("| model | key, or field | kernel | VPP |\n|---|---|---|---|\n")
	row := func(model, field string, of answer) {
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", model, field, of.kernel, of.vpp)
	}
	for _, m := range models.All() {
		whole, known := left[m.Name()]
		delete(left, m.Name())
		if !known {
			whole = answer{kernel: yes, vpp: yes}
		}
		row("`"+m.Name()+"`", "`"+strings.ReplaceAll(m.KeyPattern(), "|", `\|`)+"`", whole)
		for _, field := range fieldsOf(m.New().ProtoReflect().Descriptor(), m.Name()+".", left) {
			a, known := left[m.Name()+"."+field]
			delete(left, m.Name()+"."+field)
			if !known || a == whole {
				continue
			}
			if strings.HasPrefix(a.kernel, refusing) && strings.HasPrefix(whole.kernel, refusing) {
				a.kernel = "no"
			}
			if strings.HasPrefix(a.vpp, refusing) && strings.HasPrefix(whole.vpp, refusing) {
				a.vpp = "no"
			}
			row("", "`"+field+"`", a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		t.Errorf("answers.txt: no model or field %s", name)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	was, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of the table", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if was != table.String() {
		t.Errorf("the table of %s is not up to date: go test ./test/families -run Table -update", page)
	}
}

// fieldsOf returns the names of a message's fields, and of nested fields with an answer.
func fieldsOf(m protoreflect.MessageDescriptor, prefix string, answers map[string]answer) (names []string) {
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		name := string(field.Name())
		names = append(names, name)
		if field.Message() == nil || field.IsMap() {
			continue
		}
		for j := range field.Message().Fields().Len() {
			inner := name + "." + string(field.Message().Fields().Get(j).Name())
			if _, known := answers[prefix+inner]; known {
				names = append(names, inner)
			}
		}
	}
	return names
}

// The table is true of the kernel: models listed as refused are refused with a reason, and each
// other model has a working value.
func TestTableIsTrueOfTheKernel(t *testing.T) {
	node, pod := newSite(t)
	values := valuesFor(t, pod)
	a := startAgent(t, node)
	a.watch()
	a.resync(values...)
	a.become(pb.ValueState_CONFIGURED, values...)
	// The controller's models, and those whose kernel module may be missing.
	done := map[string]bool{"contiv.merge": true, "vpp.wg.peer": true, "vpp.vrf-table": !hasVRFDevices()}
	for _, v := range values {
		m, _ := models.ForMessage(v)
		done[m.Name()] = true
	}
	all := answers(t)
	for _, m := range models.All() {
		if !hasVRFDevices() && inVRF.MatchString(all[m.Name()].probe) {
			continue // waits for its VRF
		}
		if strings.HasPrefix(all[m.Name()].kernel, refusing) {
			a.refuses(m.Name(), probeOf(t, m, all[m.Name()]))
		} else if strings.HasPrefix(all[m.Name()].kernel, "PENDING") {
			value := probeOf(t, m, all[m.Name()])
			a.put(value)
			a.become(pb.ValueState_PENDING, value)
			a.delete(value)
		} else if !done[m.Name()] {
			t.Errorf("testdata/values.txt has no value of %s", m.Name())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		probe := all[name].probe
		if probe == "" || !hasVRFDevices() && inVRF.MatchString(probe) {
			continue
		}
		for _, m := range models.All() {
			if strings.HasPrefix(name, m.Name()+".") && m.Name() != "vpp.interfaces" || strings.HasPrefix(name, "vpp.interfaces.") && m == models.VPPInterface {
				value, err := m.Unmarshal([]byte(probe))
				if err != nil {
					t.Fatalf("probe of %s: %v", name, err)
				}
				a.refuses(name, value)
			}
		}
	}
}

// refuses checks that a value, or a derived one, is UNIMPLEMENTED with a reason.
func (a *agent) refuses(what string, value proto.Message) {
	a.t.Helper()
	key := models.Key(value)
	if was := a.ValueStatus(key).GetValue().GetState(); was == pb.ValueState_CONFIGURED {
		defer a.put(a.wanted(key))
	} else {
		defer a.delete(value)
	}
	a.put(value)
	status := a.ValueStatus(key)
	for _, s := range append([]*pb.ValueStatus{status.GetValue()}, status.GetDerivedValues()...) {
		if s.GetState() == pb.ValueState_UNIMPLEMENTED && len(s.GetError()) > len("not supported by this vswitch: ") {
			return
		}
	}
	a.t.Errorf("%s: the kernel does not refuse %v: %v", what, value, status)
}

// Exactly the models and fields listed as refused by VPP are refused.
func TestTableIsTrueOfVPP(t *testing.T) {
	vs, err := vpp.New(t.Context(), vpp.Options{Socket: vpptest.New(t).Socket(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	scheduler := kvscheduler.New(kvscheduler.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { scheduler.Close(); vs.Close() })
	if err := descriptors.Register(scheduler, vs); err != nil {
		t.Fatal(err)
	}
	try := func(what string, value proto.Message, said bool) {
		t.Helper()
		key := models.Key(value)
		txn := scheduler.NewTransaction()
		for _, name := range []string{"tap1", "tap2"} { // probes need them
			loop := &vpp_interfaces.Interface{Name: name, Type: vpp_interfaces.Interface_SOFTWARE_LOOPBACK, Enabled: true}
			txn.Put(models.Key(loop), loop)
		}
		txn.Put(key, value)
		_, _ = txn.Commit(t.Context())
		status := scheduler.ValueStatus(key)
		refused := false
		for _, s := range append([]*pb.ValueStatus{status.GetValue()}, status.GetDerivedValues()...) {
			refused = refused || s.GetState() == pb.ValueState_UNIMPLEMENTED
		}
		if refused != said {
			t.Errorf("%s: refused: %v, said to be: %v: %v", what, refused, said, status)
		}
		txn = scheduler.NewTransaction()
		txn.Delete(key)
		_, _ = txn.Commit(t.Context())
	}
	all := answers(t)
	for _, m := range models.All() {
		if !strings.HasPrefix(m.Name(), "vpp.") && !strings.HasPrefix(m.Name(), "contiv.filter.") {
			continue
		}
		value := probeOf(t, m, all[m.Name()])
		fields := value.ProtoReflect().Descriptor().Fields()
		for i := range fields.Len() {
			if strings.HasPrefix(all[m.Name()+"."+string(fields.Get(i).Name())].vpp, refusing) {
				value.ProtoReflect().Clear(fields.Get(i))
			}
		}
		try(m.Name(), value, strings.HasPrefix(all[m.Name()].vpp, refusing))
	}
	for name, a := range all {
		for _, m := range models.All() {
			if a.probe != "" && strings.HasPrefix(name, m.Name()+".") {
				try(name, probeOf(t, m, a), strings.HasPrefix(a.vpp, refusing))
			}
		}
	}
}

// probeOf returns the value that tries a model.
func probeOf(t testing.TB, m *models.Model, a answer) proto.Message {
	t.Helper()
	if a.probe == "" {
		return sampleOf(t, m)
	}
	value, err := m.Unmarshal([]byte(a.probe))
	if err != nil {
		t.Fatalf("probe of %s: %v", m.Name(), err)
	}
	return value
}

// sampleOf returns the first sample of a model.
func sampleOf(t testing.TB, m *models.Model) proto.Message {
	t.Helper()
	text, err := os.ReadFile("../../models/testdata/" + m.Name() + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "-- json --\n")
	data, _, _ := strings.Cut(rest, "\n-- ")
	value, err := m.Unmarshal([]byte(data))
	if err != nil {
		t.Fatalf("sample of %s: %v", m.Name(), err)
	}
	return value
}

// wanted returns the requested value with a key.
func (a *agent) wanted(key string) proto.Message {
	a.t.Helper()
	found, err := a.Dump(a.t.Context(), kvscheduler.NBView, kvscheduler.DumpFilter{KeyPrefix: key})
	if err != nil || len(found) == 0 {
		a.t.Fatalf("%s: %v", key, err)
	}
	return found[0].Value
}
