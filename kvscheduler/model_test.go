package kvscheduler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var (
	modelRuns  = flag.Int("sequences", 2000, "number of random sequences")
	modelSeed  = flag.Uint64("sequences.seed", 0, "seed of the first sequence; 0: the current time")
	modelStage = flag.Bool("sequences.stage", false, "include values with a stage")
	modelKeep  = flag.Int("sequences.keep", 1, "number of violations to stop after")
)

// TestRegressionSequences plays sequences that once violated the model.
func TestRegressionSequences(t *testing.T) {
	files, err := filepath.Glob("testdata/sequences/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatal("no sequences", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(bytes.NewReader(b))
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var seq modelSequence
			if err := json.Unmarshal(lines.Bytes(), &seq); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			t.Run(fmt.Sprintf("%s/%d", strings.TrimSuffix(filepath.Base(file), ".jsonl"), seq.ID), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					if v, transcript := playModel(seq); v != "" {
						t.Error(transcript)
					}
				})
			})
		}
	}
}

// TestRandomSequences plays random sequences, and minimises violating ones.
func TestRandomSequences(t *testing.T) {
	seed := *modelSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	start := time.Now()
	found := 0
	synctest.Test(t, func(t *testing.T) {
		for i := range uint64(*modelRuns) {
			rnd := rand.New(rand.NewPCG(seed+i, 1))
			seq := modelGenerator{rnd, *modelStage}.sequence()
			violation, _ := playModel(seq)
			if violation == "" {
				continue
			}
			seq = minimiseModel(seq)
			violation, transcript := playModel(seq)
			js, _ := json.Marshal(seq)
			t.Errorf("seed %d: %s\n%s\n%s", seed+i, violation, js, transcript)
			fmt.Fprintf(os.Stderr, "sequence %d of %d, seed %d: %s\n%s\n", i, *modelRuns, seed+i, violation, js)
			if found++; found >= *modelKeep {
				return
			}
		}
	})
	t.Logf("%d sequences in %v from seed %d", *modelRuns, time.Since(start), seed)
}

func randomModelSequence(rnd *rand.Rand) modelSequence {
	return modelGenerator{rnd, rnd.IntN(4) == 0}.sequence()
}

func (g modelGenerator) sequence() modelSequence {
	rnd := g.Rand
	seq := modelSequence{Batch: g.chance(30), Unknown: g.chance(15), Stage: g.stage}
	failing, spoiling, retry := g.chance(70), g.chance(25), g.chance(50)
	for range 1 + rnd.IntN(9) {
		switch n := rnd.IntN(100); {
		case failing && n < 30:
			f := g.fault()
			seq.Steps = append(seq.Steps, modelStep{Op: "fail", modelFault: f})
			seq.Steps = append(seq.Steps, g.txn(retry))
		case n < 36:
			seq.Steps = append(seq.Steps, modelStep{Op: "wait"})
		case n < 44:
			step := modelStep{Op: "notify"}
			if key := g.pick("o/0", "o/1"); g.chance(60) {
				step.Put = map[string]string{key: fmt.Sprintf("v=%d", rnd.IntN(2))}
			} else {
				step.Del = []string{key}
			}
			seq.Steps = append(seq.Steps, step)
		case spoiling && n < 52:
			step := modelStep{Op: "sb"}
			if key := g.base(); strings.HasPrefix(key, "s/") {
				step.Del = []string{key}
			} else if g.chance(50) {
				step.Put = map[string]string{key: g.value(false).String()}
			} else {
				step.Del = []string{key}
			}
			seq.Steps = append(seq.Steps, step)
			if g.chance(70) {
				seq.Steps = append(seq.Steps, modelStep{Op: "txn", Resync: g.pick("full", "downstream"), Retry: retry && g.chance(80), Plan: g.chance(20)})
			}
		case n < 55:
			seq.Steps = append(seq.Steps, modelStep{Op: "restart"})
		case n < 57:
			seq.Steps = append(seq.Steps, modelStep{Op: "kill", modelFault: modelFault{N: rnd.IntN(6)}}, g.txn(retry))
		case n < 62:
			seq.Steps = append(seq.Steps, modelStep{Op: "txn", Resync: g.pick("full", "downstream", "upstream"), Retry: retry && g.chance(80), Plan: g.chance(20)})
		default:
			seq.Steps = append(seq.Steps, g.txn(retry))
		}
	}
	return seq
}

type modelGenerator struct {
	*rand.Rand
	stage bool
}

func (g modelGenerator) chance(percent int) bool  { return g.IntN(100) < percent }
func (g modelGenerator) pick(of ...string) string { return of[g.IntN(len(of))] }
func (g modelGenerator) base() string {
	if g.stage && g.chance(40) {
		return g.pick("s/0", "s/1", "s/2")
	}
	return g.pick("a/0", "a/1", "b/0", "b/1", "b/2", "c/0", "c/1")
}
func (g modelGenerator) need() string {
	switch n := g.IntN(100); {
	case n < 45:
		return "d:" + g.base()
	case n < 55:
		return "d:o/0"
	case n < 65:
		return "d:" + partKey(g.base(), g.pick("x", "y"))
	case n < 75:
		return "d:" + propertyKey(g.base(), g.pick("p", "q"))
	default:
		return "any:" + g.pick("a/", "b/", "c/", "o/", "dv/", "pr/", "dv/"+g.base()+"/", "pr/"+g.base()+"/")
	}
}

func (g modelGenerator) value(inv bool) modelValue {
	v := modelValue{V: g.IntN(2)}
	if g.chance(25) {
		v.R = g.IntN(3)
	}
	needs := func(v *modelValue, n int) {
		for range n {
			if need := g.need(); !strings.Contains(strings.Join(v.Needs, " ")+" ", need+" ") {
				v.Needs = append(v.Needs, need)
			}
		}
	}
	needs(&v, g.IntN(3))
	for _, name := range []string{"x", "y"} {
		if g.chance(20) {
			p := modelValue{V: g.IntN(2)}
			if g.chance(15) {
				p.R = g.IntN(3)
			}
			if g.chance(40) {
				needs(&p, 1)
			}
			p.Inv = inv && g.chance(8)
			v.Parts = append(v.Parts, modelPart{name, p})
		}
	}
	for _, name := range []string{"p", "q"} {
		if g.chance(12) {
			v.Props = append(v.Props, name)
		}
	}
	v.Inv = inv && g.chance(10)
	return v
}

func (g modelGenerator) txn(retry bool) modelStep {
	step := modelStep{Op: "txn", Put: map[string]string{}, Retry: retry && g.chance(80), Revert: g.chance(15), Plan: g.chance(10)}
	for range 1 + g.IntN(3) {
		key := g.base()
		if _, dup := step.Put[key]; dup {
			continue
		}
		if g.chance(25) {
			if !strings.Contains(strings.Join(step.Del, " "), key) {
				step.Del = append(step.Del, key)
			}
			continue
		}
		if strings.Contains(strings.Join(step.Del, " "), key) {
			continue
		}
		v := g.value(true)
		if strings.HasPrefix(key, "s/") {
			v.Parts, v.Props = nil, nil
		}
		step.Put[key] = v.String()
	}
	return step
}

func (g modelGenerator) fault() modelFault {
	f := modelFault{Key: g.base(), Call: g.pick("create", "create", "update", "delete", "delete"), N: 1, Times: 1, Late: g.chance(35)}
	switch {
	case g.stage && g.chance(30):
		f.Key, f.Call = "stage", "commit"
	case g.chance(30):
		f.Key = partKey(f.Key, g.pick("x", "y"))
	case g.chance(7):
		f.Key, f.Call = g.pick("a/", "b/", "c/"), "retrieve"
	}
	if g.chance(20) {
		f.N = 2
	}
	if g.chance(20) {
		f.Times = 1 + g.IntN(5)
	}
	switch g.IntN(20) {
	case 0:
		f.Panic = true
	case 1:
		f.Hang = true
	}
	return f
}

// FuzzSequences plays fuzzed sequences.
func FuzzSequences(f *testing.F) {
	files, _ := filepath.Glob("testdata/sequences/*.jsonl")
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			f.Add(line)
		}
	}
	for seed := range uint64(20) {
		b, _ := json.Marshal(randomModelSequence(rand.New(rand.NewPCG(seed, 1))))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var seq modelSequence
		if json.Unmarshal(b, &seq) != nil || !seq.sensible() {
			return
		}
		synctest.Test(t, func(t *testing.T) {
			if v, transcript := playModel(seq); v != "" {
				js, _ := json.Marshal(seq)
				t.Errorf("%s\n%s", js, transcript)
			}
		})
	})
}

// sensible reports whether the model can play the sequence.
func (seq modelSequence) sensible() bool {
	if len(seq.Steps) > 20 {
		return false
	}
	baseKey := regexp.MustCompile(`^[abc]/[0-9]$`)
	if seq.Stage {
		baseKey = regexp.MustCompile(`^[abcs]/[0-9]$`)
	}
	obtainedKey := regexp.MustCompile(`^o/[0-9]$`)
	need := regexp.MustCompile(`^(d:([abcso]/[0-9]|(dv|pr)/[abc]/[0-9]/[a-z])|any:([abcso]/|dv/|pr/)([abc]/[0-9]/)?)$`)
	needs := func(v modelValue) bool {
		return len(v.Needs) < 5 && !slices.ContainsFunc(v.Needs, func(n string) bool { return !need.MatchString(n) })
	}
	name := regexp.MustCompile(`^[a-z]$`)
	for _, st := range seq.Steps {
		key, keys := baseKey, map[string]bool{}
		if st.Op == "notify" {
			key = obtainedKey
		}
		for _, k := range st.Del {
			if keys[k] || !key.MatchString(k) {
				return false
			}
			keys[k] = true
		}
		for k, text := range st.Put {
			v, err := parseModelValue(text)
			if err != nil || keys[k] || !key.MatchString(k) || k[0] == 's' && len(v.Parts)+len(v.Props) > 0 || !needs(v) || st.Op == "notify" && text != fmt.Sprintf("v=%d", v.V) {
				return false
			}
			for _, p := range v.Parts {
				if !needs(p.Value) || !name.MatchString(p.Name) {
					return false
				}
			}
			for _, p := range v.Props {
				if !name.MatchString(p) {
					return false
				}
			}
		}
		_, known := modelResyncs[st.Resync]
		if !known || !slices.Contains([]string{"txn", "fail", "heal", "sb", "notify", "wait", "kill", "restart"}, st.Op) ||
			st.N < 0 || st.N > 100 || st.Times < 0 || st.Times > 100 || st.Resync != "" && st.Revert || st.Resync == "downstream" && len(keys)+len(st.Put) > 0 {
			return false
		}
	}
	return true
}
