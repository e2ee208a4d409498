package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/contiv/contiv/controller/feedback"
	"github.com/contiv/contiv/ctl/target"
	"github.com/contiv/contiv/health/peers"
	"github.com/contiv/contiv/history"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/contiv/contiv/northbound/ifstate"
	"github.com/contiv/contiv/plugins/configdir"
	"github.com/contiv/contiv/plugins/contivconf"
	"github.com/contiv/contiv/plugins/ipam"
	"github.com/contiv/contiv/plugins/ipnet"
	"github.com/contiv/contiv/plugins/nodesync"
	"github.com/contiv/contiv/plugins/policy"
	"github.com/contiv/contiv/plugins/policy/denials"
	"github.com/contiv/contiv/plugins/service"
	"github.com/contiv/contiv/plugins/statscollector"
	"github.com/contiv/contiv/version"
)

// format is the version of the archive; readers refuse others.
const format = 1

const (
	readinessURL     = "/readiness"
	eventsURL        = "/controller/event-history"
	contributionsURL = "/controller/contributions"
	txnsURL          = "/scheduler/txn-history"
	explainURL       = "/scheduler/explain"
	statusURL        = "/scheduler/status"
	dumpURL          = "/scheduler/dump"
	snapshotURL      = "/scheduler/graph-snapshot"
	statsURL         = "/scheduler/stats"
	timelineURL      = "/scheduler/key-timeline"
	diffURL          = "/scheduler/diff"
)

// questions lists the requests to each agent. Explanations and contributions are requested for all keys.
var questions = []string{
	readinessURL + "?verbose=", "/liveness", "/metrics", "/log/list",
	nodesync.NodesURL, ipnet.PodsURL, ipnet.IPAMURL, ipam.URL, contivconf.URL, ifstate.URL, statscollector.DropsURL,
	service.URL, policy.URL, denials.URL, configdir.URL, peers.URL, feedback.URL,
	eventsURL, contributionsURL, txnsURL, explainURL, statusURL, statsURL, snapshotURL,
	dumpURL, dumpURL + "?view=NB", dumpURL + "?view=cached", dumpURL + "?view=SB",
	history.RunsURL,
}

// Meta is report.json.
type Meta struct {
	Format  int
	Time    time.Time
	Version string
	Nodes   []Node
}

// Node is a node in a report.
type Node struct {
	Name string
	URL  string
	// Error is the reason why its agent could not be asked.
	Error string `json:",omitempty"`
}

// entry is an answer in index.json.
type entry struct {
	Request string
	Status  int
	File    string
}

// Pack asks agents and writes their answers. An agent that cannot be asked is no error; Meta lists it.
func Pack(ctx context.Context, agents []*target.Agent, w io.Writer, now time.Time) (Meta, error) {
	zip := gzip.NewWriter(w)
	p := &packer{tar: tar.NewWriter(zip), root: "contiv-report-" + now.UTC().Format("20060102-150405"), now: now}
	meta := Meta{Format: format, Time: now, Version: version.Version}
	for _, a := range target.Ask(ctx, agents, collect) {
		node := Node{Name: a.Agent.Name, URL: a.Agent.URL}
		if a.Err != nil {
			node.Error = a.Err.Error()
		}
		meta.Nodes = append(meta.Nodes, node)
		p.node(node.Name, a.Value)
	}
	p.json("report.json", meta)
	p.file("README", readme(meta))
	return meta, cmp.Or(p.err, errors.Join(p.tar.Close(), zip.Close()))
}

func readme(meta Meta) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "What the agents of a Contiv cluster told at %s, packed by contivctl %s.\n\n", meta.Time.UTC().Format(time.RFC3339), meta.Version)
	b.WriteString("contivctl --from FILE COMMAND reads it as if the agents were there, e.g. contivctl --from FILE status.\n" +
		"Secrets were taken out. It has addresses, and names of nodes, pods and services.\n\n")
	for _, n := range meta.Nodes {
		fmt.Fprintf(&b, "%s  %s  %s\n", n.Name, n.URL, n.Error)
	}
	return []byte(b.String())
}

// answers has the answers of an agent.
type answers struct {
	answers []answer
	history []byte // a tar archive
}

type answer struct {
	request string
	status  int
	body    []byte
}

// collect sends all requests to an agent. It returns an error if the agent cannot be asked.
func collect(ctx context.Context, a *target.Agent) (answers, error) {
	var t answers
	ask := func(request string) ([]byte, error) {
		path, query, _ := strings.Cut(request, "?")
		values, _ := url.ParseQuery(query)
		status, body, err := a.Fetch(ctx, path, values)
		if err == nil {
			t.answers = append(t.answers, answer{request, status, body})
		}
		return body, err
	}
	for _, q := range questions {
		body, err := ask(q)
		if err != nil {
			return t, err
		}
		if q == service.URL {
			var report service.Report
			_ = json.Unmarshal(body, &report) // of an agent without services: none
			for _, s := range report.Services {
				if _, err := ask(service.URL + "?" + url.Values{"service": {s.Namespace + "/" + s.Name}}.Encode()); err != nil {
					return t, err
				}
			}
		}
	}
	status, files, err := a.Fetch(ctx, history.FilesURL, nil)
	if status == http.StatusOK {
		t.history = files
	}
	return t, err
}

type packer struct {
	tar  *tar.Writer
	root string
	now  time.Time
	err  error // the first
}

func (p *packer) file(name string, data []byte) {
	if p.err != nil {
		return
	}
	if p.err = p.tar.WriteHeader(&tar.Header{Name: p.root + "/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: p.now}); p.err == nil {
		_, p.err = p.tar.Write(data)
	}
}

func (p *packer) json(name string, v any) {
	data, err := json.MarshalIndent(v, "", "  ")
	p.err = cmp.Or(p.err, err)
	p.file(name, append(data, '\n'))
}

func (p *packer) node(name string, t answers) {
	directory := path.Join("nodes", url.PathEscape(name))
	var index []entry
	for i, a := range t.answers {
		file := fmt.Sprintf("answers/%02d-%s", i, strings.Trim(unsafe.ReplaceAllString(a.request, "-"), "-"))
		index = append(index, entry{a.request, a.status, file})
		p.file(directory+"/"+file, scrub(a.body))
	}
	p.json(directory+"/index.json", index)
	for files := tar.NewReader(bytes.NewReader(t.history)); ; {
		header, err := files.Next()
		if err != nil {
			return
		}
		data, err := io.ReadAll(files)
		if err != nil {
			return
		}
		p.file(directory+"/history/"+path.Base(header.Name), data)
	}
}

// unsafe matches characters that file names should not have.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// secret matches a JSON member that looks like a secret, in case an answer contains one; also in JSON within a text.
var secret = regexp.MustCompile(`(?i)^(\\*"[a-z0-9_.]*(?:private_?key|preshared_?key|crypto_?key|integ_?key|secret|password|token)\\*"\s*:\s*\\*")((?:[^"\\]|\\[^"])*)`)

// inSecrets lists what occurs in the names of secrets, and hardly elsewhere: answers are long, and matching is slow.
var inSecrets = []string{"private", "preshared", "crypto", "integ", "secret", "password", "token"}

func scrub(body []byte) []byte {
	var hits []int
	lower := lowered(body)
	for _, word := range inSecrets {
		for at := 0; ; at++ {
			hit := bytes.Index(lower[at:], []byte(word))
			if hit < 0 {
				break
			}
			at += hit
			hits = append(hits, at)
		}
	}
	if len(hits) == 0 {
		return body
	}
	slices.Sort(hits)
	var clean []byte
	copied := 0
	for _, hit := range hits {
		begin := bytes.LastIndexByte(body[:hit], '"')
		for begin > 0 && body[begin-1] == '\\' {
			begin--
		}
		if begin < copied {
			continue
		}
		if m := secret.FindSubmatchIndex(body[begin:]); m != nil {
			clean = append(append(clean, body[copied:begin+m[4]]...), record.Redacted...)
			copied = begin + m[5]
		}
	}
	return append(clean, body[copied:]...)
}

// lowered returns the text with small ASCII letters.
func lowered(text []byte) []byte {
	lower := bytes.Clone(text)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}
