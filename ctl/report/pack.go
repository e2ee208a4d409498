package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
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
	"golang.org/x/sync/errgroup"
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
	p := &packer{root: "contiv-report-" + now.UTC().Format("20060102-150405"), now: now}
	meta := Meta{Format: format, Time: now, Version: version.Version}
	for _, a := range target.Ask(ctx, agents, p.collect) {
		node := Node{Name: a.Agent.Name, URL: a.Agent.URL}
		if a.Err != nil {
			node.Error = a.Err.Error()
		}
		meta.Nodes = append(meta.Nodes, node)
		for _, file := range a.Value {
			if _, err := w.Write(file); err != nil {
				return meta, err
			}
		}
	}
	about, err := p.json("report.json", meta)
	if err != nil {
		return meta, err
	}
	text, err := p.file("README", readme(meta))
	if err != nil {
		return meta, err
	}
	end, err := compressed(func(archive *tar.Writer) error { return archive.Close() })
	if err != nil {
		return meta, err
	}
	_, err = w.Write(slices.Concat(about, text, end))
	return meta, err
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

// answer is an answer of an agent.
type answer struct {
	request string
	status  int
	body    []byte
}

// atOnce is how many requests an agent is sent at once.
const atOnce = 4

// collect sends all requests to an agent, and returns files with the answers. It returns an error if the agent cannot be
// asked; the files are what came before.
func (p *packer) collect(ctx context.Context, a *target.Agent) (files [][]byte, err error) {
	requests := slices.Clone(questions)
	var services service.Report
	_ = a.Get(ctx, service.URL, nil, &services) // of an agent without services: none; nor of one that cannot be asked
	for _, s := range services.Services {
		requests = append(requests, service.URL+"?"+url.Values{"service": {s.Namespace + "/" + s.Name}}.Encode())
	}
	directory := path.Join("nodes", url.PathEscape(a.Name))
	index := make([]entry, len(requests))
	files = make([][]byte, len(requests), len(requests)+10)
	asked, askedCtx := errgroup.WithContext(ctx)
	asked.SetLimit(atOnce)
	for i, request := range requests {
		asked.Go(func() error {
			path, query, _ := strings.Cut(request, "?")
			values, _ := url.ParseQuery(query)
			status, body, err := a.Fetch(askedCtx, path, values)
			if err != nil {
				return err
			}
			index[i] = entry{request, status, fmt.Sprintf("answers/%02d-%s", i, strings.Trim(unsafe.ReplaceAllString(request, "-"), "-"))}
			files[i], err = p.file(directory+"/"+index[i].File, scrub(body))
			return err
		})
	}
	err = asked.Wait()
	index = slices.DeleteFunc(index, func(e entry) bool { return e.File == "" })
	list, indexErr := p.json(directory+"/index.json", index)
	files = append(files, list)
	if err := cmp.Or(err, indexErr); err != nil {
		return files, err
	}
	status, past, err := a.Fetch(ctx, history.FilesURL, nil)
	if err != nil || status != http.StatusOK {
		return files, err
	}
	for archive := tar.NewReader(bytes.NewReader(past)); ; {
		header, err := archive.Next()
		if err != nil {
			return files, nil
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return files, nil
		}
		file, err := p.file(directory+"/history/"+path.Base(header.Name), data)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
}

// packer makes the parts of an archive. Each is compressed by itself, so that parts are made at the same time; together,
// they are one compressed file.
type packer struct {
	root string
	now  time.Time
}

func (p *packer) file(name string, data []byte) ([]byte, error) {
	return compressed(func(archive *tar.Writer) error {
		err := archive.WriteHeader(&tar.Header{Name: p.root + "/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: p.now})
		if err == nil {
			_, err = archive.Write(data)
		}
		return cmp.Or(err, archive.Flush())
	})
}

func (p *packer) json(name string, v any) ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return p.file(name, append(data, '\n'))
}

// compressors are expensive to make.
var compressors = sync.Pool{New: func() any {
	w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // the level is valid
	return w
}}

// compressed returns what write writes, compressed.
func compressed(write func(*tar.Writer) error) ([]byte, error) {
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	err := cmp.Or(write(tar.NewWriter(w)), w.Close())
	return out.Bytes(), err
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
