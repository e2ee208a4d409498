package kvscheduler

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

var updateScenarios = flag.Bool("update", false, "rewrite the expected output of the scenario scripts")

// TestScenarios runs the scripts in testdata. A script is a txtar archive: its comment is a description, its
// sections are steps. A step is a transcript of commands, which start with "> ", and their output. Time
// passes only in the command "after".
//
//	descriptors NAME...           register descriptors of the toy network (network_test.go)
//	model [batch] [unknown] [stage]   use the southbound of the model instead (model_southbound_test.go)
//	put KEY JSON, delete KEY      add to the transaction
//	commit [OPTION...]            commit it: full|upstream|downstream, keys=K,K, retry, retry=PERIOD/COUNT[/backoff], revert, kvdb
//	plan [OPTION...]              print the plan of the transaction
//	notify KEY [JSON]             push a notification; without a value: the key is removed
//	fail OPERATION KEY MESSAGE    make the next such call fail; with the model, "late": after it took effect
//	exists KEY JSON [SB|NB]       create a value in the southbound without the scheduler
//	vanish KEY                    remove it
//	drift REASON KEY...           report drift
//	after DURATION                let time pass
//	restart                       start a new scheduler on the same southbound
//	calls, southbound, status [PREFIX], explain KEY, diagram SEQNUM
//
// Every command prints the transactions that it causes.
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { runScenario(t, file) })
		})
	}
}

func runScenario(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sc := &scenario{t: t, net: newNetwork()}
	sc.restart()
	defer func() { _ = sc.s.Close() }()
	for i := range archive.Files {
		step := &archive.Files[i]
		got := sc.run(string(step.Data))
		if *updateScenarios {
			step.Data = []byte(got)
		} else if want := string(step.Data); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("step %q: got\n%s\nwant\n%s", step.Name, got, want)
		}
	}
	if *updateScenarios {
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type scenario struct {
	t       *testing.T
	s       *Scheduler
	net     *network
	model   *modelSouthbound // replaces net
	names   []string
	pending *Transaction
	printed int // number of printed records
	drawn   []uint64
	out     strings.Builder
}

func (sc *scenario) restart() {
	if sc.s != nil {
		_ = sc.s.Close()
	}
	sc.s = New(Options{Logger: quietLog()})
	sc.printed, sc.pending = 0, nil
	for _, name := range sc.names {
		sc.register(name)
	}
	if sc.model != nil {
		sc.model.register(sc.s)
	}
}

func (sc *scenario) register(name string) {
	if err := sc.net.register(sc.s, name); err != nil {
		sc.t.Fatal(err)
	}
}

func (sc *scenario) run(step string) string {
	sc.out.Reset()
	for _, line := range strings.Split(step, "\n") {
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		fmt.Fprintln(&sc.out, line)
		name, rest, _ := strings.Cut(command, " ")
		sc.command(name, strings.TrimSpace(rest))
		synctest.Wait()
		settle(sc.t, sc.s)
		sc.printTransactions()
	}
	return sc.out.String() + "\n"
}

func (sc *scenario) command(name, rest string) {
	arg, more, _ := strings.Cut(rest, " ")
	switch name {
	case "descriptors":
		for _, d := range strings.Fields(rest) {
			sc.names = append(sc.names, d)
			sc.register(d)
		}
	case "model":
		sc.model = newModelSouthbound(strings.Contains(rest, "batch"), strings.Contains(rest, "unknown"))
		sc.model.stages = strings.Contains(rest, "stage")
		sc.model.register(sc.s)
	case "put":
		sc.txn().Put(arg, sc.value(more))
	case "delete":
		sc.txn().Delete(arg)
	case "commit":
		sc.commit(strings.Fields(rest))
	case "plan":
		ops, err := sc.txn().Plan(sc.t.Context(), sc.options(strings.Fields(rest))...)
		if err != nil {
			fmt.Fprintln(&sc.out, "error:", err)
		}
		for i, op := range opsOf(ops) {
			fmt.Fprintf(&sc.out, "    %d. %s\n", i+1, op)
		}
	case "notify":
		n := Notification{Key: arg}
		if more != "" {
			n.Value = sc.value(more)
		}
		if err := sc.s.PushSBNotification(n); err != nil {
			fmt.Fprintln(&sc.out, "error:", err)
		}
	case "fail":
		key, message, _ := strings.Cut(more, " ")
		if sc.model != nil {
			f := &modelFault{Key: key, Call: strings.ToLower(arg), N: 1, Times: 1, Late: message == "late"}
			for _, before := range sc.model.faults {
				if before.Key == f.Key && before.Call == f.Call && before.seen < before.N {
					f.N++
				}
			}
			sc.model.faults = append(sc.model.faults, f)
			return
		}
		sc.net.fail[arg+" "+key] = append(sc.net.fail[arg+" "+key], errors.New(message))
	case "exists":
		if sc.model != nil {
			sc.model.put(arg, mustModelValue(more))
			return
		}
		js, origin, _ := strings.Cut(more, "} ")
		if origin != "" {
			js += "}"
		}
		sc.net.exists[arg] = sc.object(js)
		sc.net.origin[arg] = map[string]Origin{"": FromNB, "NB": FromNB, "SB": FromSB}[origin]
	case "vanish":
		delete(sc.net.exists, arg)
		if sc.model != nil {
			sc.model.remove(arg)
		}
	case "drift":
		f := strings.Fields(rest)
		_ = sc.s.ReportDrift(f[0], f[1:]...)
	case "after":
		d, err := time.ParseDuration(arg)
		if err != nil {
			sc.t.Fatal(err)
		}
		time.Sleep(d)
	case "restart":
		sc.restart()
	case "calls":
		for _, c := range sc.net.calls {
			fmt.Fprintln(&sc.out, "   ", c)
		}
		sc.net.calls = nil
		if sc.model != nil {
			for _, c := range sc.model.calls {
				fmt.Fprintln(&sc.out, "   ", c)
			}
			sc.model.calls = nil
		}
	case "southbound":
		var lines []string
		for key, v := range sc.net.exists {
			lines = append(lines, key+"  "+record.Compact(v))
		}
		if sc.model != nil {
			lines = sc.model.content()
		}
		slices.Sort(lines)
		for _, l := range lines {
			fmt.Fprintln(&sc.out, "   ", l)
		}
	case "diagram":
		var seq uint64
		fmt.Sscan(rest, &seq)
		sc.drawn = append(sc.drawn, seq)
		if err := Upper.Draw(&sc.out, sc.s.RecordedTxn(seq)); err != nil {
			sc.t.Fatal(err)
		}
	case "explain":
		fmt.Fprintln(&sc.out, "   ", Upper.Explain(sc.s, rest))
	case "status":
		for _, st := range sc.s.ValueStatuses(rest) {
			sc.printStatus("    ", st.Value.Key, st.Value.State.String(), st.Value.Details, st.Value.Error)
			for _, d := range st.DerivedValues {
				sc.printStatus("      ", d.Key, d.State.String(), d.Details, d.Error)
			}
		}
	default:
		sc.t.Fatalf("unknown command %q", name)
	}
}

func (sc *scenario) printStatus(indent, key, state string, details []string, err string) {
	fmt.Fprintf(&sc.out, "%s%s  %s", indent, key, state)
	if len(details) > 0 {
		fmt.Fprintf(&sc.out, " %v", details)
	}
	if err != "" {
		fmt.Fprintf(&sc.out, "  %s", err)
	}
	fmt.Fprintln(&sc.out)
}

func (sc *scenario) txn() *Transaction {
	if sc.pending == nil {
		sc.pending = sc.s.NewTransaction()
	}
	return sc.pending
}

func (sc *scenario) commit(args []string) {
	t := sc.txn()
	sc.pending = nil
	_, err := t.Commit(sc.t.Context(), sc.options(args)...)
	var te *TransactionError
	switch {
	case slices.Contains(args, "kvdb"):
	case errors.As(err, &te) && te.Reverted:
		fmt.Fprintln(&sc.out, "reply: reverted because of", te.Errors[0])
	case err != nil:
		fmt.Fprintln(&sc.out, "reply:", err)
	}
}

func (sc *scenario) options(args []string) []TxnOption {
	var opts []TxnOption
	for _, a := range args {
		name, v, _ := strings.Cut(a, "=")
		switch name {
		case "full":
			opts = append(opts, WithResync(FullResync))
		case "upstream":
			opts = append(opts, WithResync(UpstreamResync))
		case "downstream":
			opts = append(opts, WithResync(DownstreamResync))
		case "keys":
			opts = append(opts, WithOnlyKeys(strings.Split(v, ",")...))
		case "revert":
			opts = append(opts, WithRevert())
		case "kvdb": // options of the key-value store: do not wait, and retry failures
			opts = append(opts, WithoutBlocking(), WithDefaultRetry())
		case "retry":
			opts = append(opts, WithRetry(sc.retry(v)))
		default:
			sc.t.Fatalf("unknown option %q", a)
		}
	}
	return opts
}

func (sc *scenario) retry(text string) Retry {
	if text == "" {
		return DefaultRetry
	}
	var r Retry
	f := strings.Split(text, "/")
	r.Period, _ = time.ParseDuration(f[0])
	fmt.Sscan(f[1], &r.MaxCount)
	r.ExpBackoff = len(f) > 2
	return r
}

func (sc *scenario) value(js string) proto.Message {
	if sc.model != nil {
		return val(mustModelValue(js).String())
	}
	return sc.object(js)
}

func (sc *scenario) object(js string) *structpb.Struct {
	v := &structpb.Struct{}
	if err := protojson.Unmarshal([]byte(js), v); err != nil {
		sc.t.Fatalf("%s: %v", js, err)
	}
	return v
}

var times = regexp.MustCompile(`  \d\d:\d\d:\d\d\.\d+  \S+ \(southbound \S+\)`)

func (sc *scenario) printTransactions() {
	all := sc.s.History(noTime, noTime)
	for _, r := range all[sc.printed:] {
		copy := *r
		copy.Values = nil
		sc.out.WriteString(times.ReplaceAllString(copy.String(), ""))
	}
	sc.printed = len(all)
}
