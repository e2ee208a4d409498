package report

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/agent/health/peers"
	"github.com/contiv/contiv/internal/agent/history"
	"github.com/contiv/contiv/internal/agent/northbound/ifstate"
	"github.com/contiv/contiv/internal/controller/feedback"
	"github.com/contiv/contiv/internal/ctl/target"
	"github.com/contiv/contiv/internal/lib/version"
	"github.com/contiv/contiv/internal/plugins/configdir"
	"github.com/contiv/contiv/internal/plugins/contivconf"
	"github.com/contiv/contiv/internal/plugins/ipam"
	"github.com/contiv/contiv/internal/plugins/ipnet"
	"github.com/contiv/contiv/internal/plugins/nodesync"
	"github.com/contiv/contiv/internal/plugins/policy"
	"github.com/contiv/contiv/internal/plugins/policy/denials"
	"github.com/contiv/contiv/internal/plugins/service"
	"github.com/contiv/contiv/internal/plugins/statscollector"
	"github.com/contiv/contiv/kvscheduler/record"
	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"
)

// format is the version of the archive; readers refuse newer ones. Version 1 had answers that
// follow from others, versions before 3 one answer per service, and versions before 4 states
// separate from explanations.
const format = 4

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
	// servicesURL is the request for the full reports of all services.
	servicesURL = service.URL + "?verbose="
)

// questions lists the requests to each agent, those with the longest answers first. Explanations
// and contributions are requested for all keys. An explanation contains the value, from which
// states and cached views follow.
var questions = []string{
	explainURL, dumpURL + "?view=SB", contributionsURL, eventsURL,
	readinessURL + "?verbose=", "/liveness", "/metrics", "/log/list",
	nodesync.NodesURL, ipnet.PodsURL, ipnet.IPAMURL, ipam.URL, contivconf.URL, ifstate.URL, statscollector.DropsURL,
	service.URL, servicesURL, policy.URL, denials.URL, configdir.URL, peers.URL, feedback.URL,
	statsURL, dumpURL,
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

// Pack asks agents and writes their answers. Meta lists agents that could not be asked; they are no
// error.
func Pack(ctx context.Context, agents []*target.Agent, w io.Writer, now time.Time) (Meta, error) {
	p := newPacker(now)
	meta := Meta{Format: format, Time: now, Version: version.Version}
	for _, a := range target.Ask(ctx, agents, p.collect) {
		node := Node{Name: a.Agent.Name, URL: a.Agent.URL}
		if a.Err != nil {
			node.Error = a.Err.Error()
		}
		meta.Nodes = append(meta.Nodes, node)
		for _, part := range slices.Concat(a.Value...) {
			if _, err := w.Write(part); err != nil {
				return meta, err
			}
		}
	}
	about, err := p.json("report.json", meta)
	if err != nil {
		return meta, err
	}
	text, err := p.file("README", bytes.NewReader(readme(meta)), nil)
	if err != nil {
		return meta, err
	}
	end, err := p.compressed(gzip.BestSpeed, make([]byte, 2*block))
	if err != nil {
		return meta, err
	}
	_, err = w.Write(slices.Concat(slices.Concat(about, text, file{end})...))
	return meta, err
}

func readme(meta Meta) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "Answers of the agents of a Contiv cluster at %s, packed by contivctl %s.\n\n", meta.Time.UTC().Format(time.RFC3339), meta.Version)
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
	// file has the body, in a report; "" if body is complete.
	file string
}

// atOnce is the number of concurrent requests to an agent.
const atOnce = 4

// collect sends all requests to an agent and returns the answers as files. If the agent stops
// answering, it returns an error and the files so far.
func (p *packer) collect(ctx context.Context, a *target.Agent) (files []file, err error) {
	a, release := a.KeepConnections()
	defer release()
	const runs, txns = 0, 1
	requests := slices.Concat([]string{runs: history.RunsURL, txns: txnsURL}, questions)
	directory := path.Join("nodes", url.PathEscape(a.Name))
	index := make([]entry, len(requests))
	files = make([]file, len(requests))
	asked, askedCtx := errgroup.WithContext(ctx)
	ask := func(i int, copied io.Writer) (status int, err error) {
		path, query, _ := strings.Cut(requests[i], "?")
		values, _ := url.ParseQuery(query)
		status, body, err := a.Fetch(askedCtx, path, values)
		if err != nil {
			return 0, err
		}
		defer body.Close()
		name := fmt.Sprintf("answers/%02d-%s", i, strings.Trim(unsafe.ReplaceAllString(requests[i], "-"), "-"))
		if files[i], err = p.file(directory+"/"+name, io.TeeReader(body, copied), scrub); err == nil {
			index[i] = entry{requests[i], status, name}
		}
		return status, err
	}
	var past []file
	asked.SetLimit(atOnce)
	asked.Go(func() error {
		var known bytes.Buffer
		status, err := ask(runs, &known)
		if err == nil {
			past, err = p.history(askedCtx, a, directory+"/history/")
		}
		if err == nil && (len(past) == 0 || !whole(answer{status: status, body: known.Bytes()})) { // otherwise the history has the records
			_, err = ask(txns, io.Discard)
		}
		return err
	})
	for i := txns + 1; i < len(requests); i++ {
		asked.Go(func() error {
			_, err := ask(i, io.Discard)
			return err
		})
	}
	err = asked.Wait()
	index = slices.DeleteFunc(index, func(e entry) bool { return e.File == "" })
	list, indexErr := p.json(directory+"/index.json", index)
	return append(append(files, list), past...), cmp.Or(err, indexErr)
}

// whole reports whether the history has the complete current run.
func whole(runs answer) bool {
	var list []history.Run
	err := json.Unmarshal(runs.body, &list)
	return err == nil && runs.status == http.StatusOK && len(list) > 0 && list[len(list)-1].Lost == 0
}

// history returns the files of an agent's history; none if it keeps none.
func (p *packer) history(ctx context.Context, a *target.Agent, directory string) (files []file, err error) {
	status, past, err := a.Fetch(ctx, history.FilesURL, nil)
	if err != nil {
		return nil, err
	}
	defer past.Close()
	if status != http.StatusOK {
		return nil, nil
	}
	for archive := tar.NewReader(past); ; {
		header, err := archive.Next()
		if err != nil {
			return files, lost(err)
		}
		file, err := p.file(directory+path.Base(header.Name), archive, nil)
		if err != nil {
			return files, err
		}
		files = append(files, file)
	}
}

// lost returns the error of an agent that stopped answering, or never stops. A partly unreadable
// history is no error.
func lost(err error) error {
	var unreachable *target.UnreachableError
	if errors.As(err, &unreachable) || errors.Is(err, target.ErrTooLong) {
		return err
	}
	return nil
}

// packer compresses the parts of an archive concurrently. The concatenated parts are one valid gzip
// file.
type packer struct {
	root string
	now  time.Time
	// compressing limits concurrent compression to the number of processors.
	compressing chan struct{}
}

func newPacker(now time.Time) *packer {
	return &packer{root: "contiv-report-" + now.UTC().Format("20060102-150405"), now: now, compressing: make(chan struct{}, runtime.GOMAXPROCS(0))}
}

// block is the block size of tar; two zero blocks end an archive.
const block = 512

// piece is how much of a file is compressed at once, while the next piece is read.
const piece = 512 << 10

// buffers are reused, because allocating takes as long as compressing.
var buffers = sync.Pool{New: func() any { return new(slices.Grow([]byte(nil), piece)) }}

// packed is a compressed piece of a file.
type packed struct {
	size       int
	compressed []byte
}

// file is a compressed file of the archive, in pieces.
type file [][]byte

// file returns a file with the content after clean; a nil clean keeps it. clean gets pieces that
// end between JSON elements.
func (p *packer) file(name string, content io.Reader, clean func([]byte) []byte) (file, error) {
	raw := clean == nil
	if raw {
		clean = func(text []byte) []byte { return text }
	}
	var packing errgroup.Group
	packing.SetLimit(atOnce)
	var pieces []*packed
	text := buffers.Get().(*[]byte)
	*text = (*text)[:0]
	for more := true; more; {
		n, err := io.ReadFull(content, (*text)[len(*text):cap(*text)])
		*text = (*text)[:len(*text)+n]
		if more = err == nil; err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			_ = packing.Wait()
			return nil, err
		}
		end := len(*text)
		if !more && len(pieces) == 0 {
			defer buffers.Put(text)
			return p.short(name, clean(*text))
		}
		if more && !raw {
			if end = lastElement(*text); end == 0 { // one long element, or no JSON
				*text = slices.Grow(*text, piece)
				continue
			}
		}
		rest := buffers.Get().(*[]byte)
		*rest = append((*rest)[:0], (*text)[end:]...)
		done, next := text, &packed{}
		pieces, text = append(pieces, next), rest
		packing.Go(func() (err error) {
			defer buffers.Put(done)
			cleaned := clean((*done)[:end])
			next.size = len(cleaned)
			next.compressed, err = p.compressed(levelOf(name), cleaned)
			return err
		})
	}
	buffers.Put(text)
	if err := packing.Wait(); err != nil {
		return nil, err
	}
	size := 0
	for _, piece := range pieces {
		size += piece.size
	}
	header, err := p.header(name, size)
	if err != nil {
		return nil, err
	}
	begin, err := p.compressed(gzip.BestSpeed, header)
	if err != nil {
		return nil, err
	}
	parts := file{begin}
	for _, piece := range pieces {
		parts = append(parts, piece.compressed)
	}
	padding, err := p.compressed(gzip.BestSpeed, make([]byte, -size&(block-1)))
	return append(parts, padding), err
}

// short returns a file in one piece.
func (p *packer) short(name string, content []byte) (file, error) {
	text, err := p.header(name, len(content))
	if err != nil {
		return nil, err
	}
	text = append(append(text, content...), make([]byte, -len(content)&(block-1))...)
	all, err := p.compressed(levelOf(name), text)
	return file{all}, err
}

func (p *packer) header(name string, size int) ([]byte, error) {
	var header bytes.Buffer
	err := tar.NewWriter(&header).WriteHeader(&tar.Header{Name: p.root + "/" + name, Mode: 0o600, Size: int64(size), ModTime: p.now})
	return header.Bytes(), err
}

// lastElement returns the start of the last element of a list of objects; 0 if none. No secret
// extends beyond it.
func lastElement(text []byte) int {
	const end = "},"
	if at := bytes.LastIndex(text, []byte(end+`{"`)); at >= 0 {
		return at + len(end)
	}
	return 0
}

func (p *packer) json(name string, v any) (file, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return p.file(name, bytes.NewReader(append(data, '\n')), nil)
}

// levelOf returns the level of compression of a file.
func levelOf(name string) int {
	if strings.HasSuffix(name, ".gz") {
		return gzip.NoCompression
	}
	return gzip.BestSpeed
}

// compressors are pooled by level, because creating one is slow.
var compressors = map[int]*sync.Pool{gzip.BestSpeed: compressorsOf(gzip.BestSpeed), gzip.NoCompression: compressorsOf(gzip.NoCompression)}

func compressorsOf(level int) *sync.Pool {
	return &sync.Pool{New: func() any {
		w, _ := gzip.NewWriterLevel(nil, level) // the level is valid
		return w
	}}
}

// compressed returns the text as a compressed file.
func (p *packer) compressed(level int, text []byte) ([]byte, error) {
	p.compressing <- struct{}{}
	defer func() { <-p.compressing }()
	room := len(text)/8 + block // agents' answers compress to a tenth
	if level == gzip.NoCompression {
		room = len(text) + block
	}
	out := bytes.NewBuffer(make([]byte, 0, room))
	w := compressors[level].Get().(*gzip.Writer)
	defer compressors[level].Put(w)
	w.Reset(out)
	if _, err := w.Write(text); err != nil {
		return nil, err
	}
	err := w.Close()
	return out.Bytes(), err
}

// unsafe matches characters that are replaced in file names.
var unsafe = regexp.MustCompile(`[^A-Za-z0-9._]+`)

// secret matches a JSON member that looks like a secret, also in JSON inside a string.
var secret = regexp.MustCompile(`(?i)^(\\*"[a-z0-9_.]*(?:private_?key|preshared_?key|crypto_?key|integ_?key|secret|password|token)\\*"\s*:\s*\\*")((?:[^"\\]|\\[^"])*)`)

// scrub returns the answer without secrets.
func scrub(body []byte) []byte {
	var clean []byte
	copied := 0
	for colon := 0; ; colon++ {
		next := bytes.IndexByte(body[colon:], ':')
		if next < 0 {
			break
		}
		colon += next
		begin := perhapsSecret(body[:colon])
		if begin < copied {
			continue
		}
		if m := secret.FindSubmatchIndex(body[begin:]); m != nil {
			clean = append(append(clean, body[copied:begin+m[4]]...), record.Redacted...)
			copied = begin + m[5]
		}
	}
	if copied == 0 {
		return body
	}
	return append(clean, body[copied:]...)
}

// shortest is the length of the shortest name of a secret.
const shortest = len("token")

// perhapsSecret returns the start of a name at the end of a text, with its quote, if it may be a
// secret's; otherwise -1. It checks the last two letters first, because answers are long and
// matching is slow.
func perhapsSecret(text []byte) int {
	end := len(text)
	for end > 0 && (text[end-1] == ' ' || '\t' <= text[end-1] && text[end-1] <= '\r') {
		end--
	}
	if end == 0 || text[end-1] != '"' {
		return -1
	}
	end--
	for end > 0 && text[end-1] == '\\' {
		end--
	}
	if end < shortest {
		return -1
	}
	switch [2]byte{text[end-2] | ' ', text[end-1] | ' '} { // small letters
	case [2]byte{'e', 'y'}, [2]byte{'e', 't'}, [2]byte{'r', 'd'}, [2]byte{'e', 'n'}:
	default:
		return -1
	}
	begin := bytes.LastIndexByte(text[:end], '"')
	if end-begin-1 < shortest {
		return -1
	}
	for begin > 0 && text[begin-1] == '\\' {
		begin--
	}
	return begin
}
