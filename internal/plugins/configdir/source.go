package configdir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/contiv/contiv/internal/controller"
	"github.com/contiv/contiv/internal/etcd/store"
	"github.com/contiv/contiv/internal/lib/dirwatch"
	"github.com/contiv/contiv/models/manifest"
	"google.golang.org/protobuf/proto"
)

// Name of the source.
const Name = "directory"

const storePrefix = "/config-dir/"

type content struct {
	text   []byte
	values []manifest.Value
}

// Source is an external source. Run must be called.
type Source struct {
	dir   string
	local store.Broker
	log   *slog.Logger
	files *dirwatch.Directory[content]

	// saved holds the stored texts by file. Used only by Run.
	saved map[string]content

	mu     sync.Mutex
	config controller.ExternalConfig
	status Status
}

var _ controller.ExternalConfigSource = (*Source)(nil)

// New reads the directory, which must exist. local holds the last valid texts of its files.
func New(ctx context.Context, opts dirwatch.Options, local store.Broker, log *slog.Logger) (*Source, error) {
	s := &Source{dir: opts.Dir, local: local, log: log.With("plugin", "configdir"), saved: make(map[string]content)}
	opts.Logger = s.log
	var err error
	if s.files, err = dirwatch.New(opts, parse); err != nil {
		return nil, err
	}
	if err := s.load(ctx); err != nil {
		return nil, err
	}
	s.apply(ctx, s.files.Scan())
	return s, nil
}

func parse(_ string, text []byte) (content, error) {
	values, err := manifest.Parse(text)
	mistakes := []error{err}
	for _, v := range values {
		if err := controller.ValidateDirectives(v.Key, v.Message); err != nil {
			mistakes = append(mistakes, fmt.Errorf("line %d: %w", v.Line, err))
		}
	}
	return content{text, values}, errors.Join(mistakes...)
}

func (s *Source) load(ctx context.Context) error {
	kvs, _, err := s.local.List(ctx, storePrefix)
	if err != nil {
		return fmt.Errorf("read the saved texts of the files in %s: %w", s.dir, err)
	}
	for _, kv := range kvs {
		name := strings.TrimPrefix(kv.Key, storePrefix)
		saved, err := parse(name, kv.Value)
		if err != nil {
			s.log.Error("Decoding the saved text of a file failed", "file", name, "error", err)
			continue
		}
		s.saved[name] = saved
	}
	return nil
}

func (s *Source) String() string { return Name }

func (s *Source) GetConfigSnapshot() (controller.ExternalConfig, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.config, nil
}

// Run pushes changes to the event loop until ctx ends.
func (s *Source) Run(ctx context.Context, loop controller.EventLoop) {
	s.files.Run(ctx, func(snapshot dirwatch.Snapshot[content]) {
		changes := s.apply(ctx, snapshot)
		if len(changes) == 0 {
			return
		}
		event := &controller.ExternalConfigChange{Source: Name, Changes: changes}
		err := loop.PushEvent(ctx, event)
		for ; errors.Is(err, controller.ErrQueueFull); err = loop.PushEvent(ctx, event) { // no later event repeats the change
			select {
			case <-time.After(pushAgain):
			case <-ctx.Done():
				return
			}
		}
		if err != nil && ctx.Err() == nil {
			s.log.Error("Applying changed files failed; the next resync applies them", "error", err)
		}
	})
}

const pushAgain = 100 * time.Millisecond

func (s *Source) apply(ctx context.Context, snapshot dirwatch.Snapshot[content]) controller.ExternalConfig {
	status := Status{Dir: s.dir, Err: text(snapshot.Err), Files: []FileStatus{}}
	config := make(controller.ExternalConfig)
	origin := make(map[string]string)
	for _, file := range snapshot.Files {
		held, of := s.held(ctx, file)
		f := FileStatus{Name: file.Name, Values: len(held.values), Of: of, Err: text(file.Err)}
		for _, v := range held.values {
			if other, twice := origin[v.Key]; twice {
				f.Overrides = append(f.Overrides, Override{Key: v.Key, File: other})
			}
			origin[v.Key] = file.Name
			config[v.Key] = v.Message
		}
		status.Files = append(status.Files, f)
	}
	if snapshot.Err == nil {
		s.forgetOthers(ctx, snapshot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.warnOfOverrides(status)
	changes := diff(s.config, config)
	s.config, s.status = config, status
	return changes
}

func (s *Source) held(ctx context.Context, file dirwatch.File[content]) (held content, of string) {
	saved, known := s.saved[file.Name]
	switch {
	case !file.Usable && known:
		return saved, Earlier // the mistake is older than this process
	case !file.Usable:
		return content{}, Nothing
	case !known || string(saved.text) != string(file.Content.text):
		if err := s.local.Put(ctx, storePrefix+file.Name, file.Content.text); err != nil {
			s.log.Error("Saving the text of a file failed", "file", file.Name, "error", err)
			break // the next change of any file retries
		}
		s.saved[file.Name] = file.Content
	}
	if file.Err != nil {
		return file.Content, Earlier
	}
	return file.Content, Present
}

func (s *Source) forgetOthers(ctx context.Context, snapshot dirwatch.Snapshot[content]) {
	present := make(map[string]bool)
	for _, file := range snapshot.Files {
		present[file.Name] = true
	}
	for name := range s.saved {
		if present[name] {
			continue
		}
		if err := s.local.Delete(ctx, storePrefix+name); err != nil && !errors.Is(err, context.Canceled) {
			s.log.Error("Deleting the saved text of a removed file failed", "file", name, "error", err)
			continue // the next change tries again
		}
		delete(s.saved, name)
	}
}

func diff(before, after controller.ExternalConfig) controller.ExternalConfig {
	changes := make(controller.ExternalConfig)
	for key, value := range after {
		if old, ok := before[key]; !ok || !proto.Equal(old, value) {
			changes[key] = value
		}
	}
	for key := range before {
		if after[key] == nil {
			changes[key] = nil
		}
	}
	return changes
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
