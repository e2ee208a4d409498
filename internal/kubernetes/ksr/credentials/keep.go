package credentials

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/contiv/contiv/internal/etcd/pki"
	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
)

const (
	requestTimeout = time.Minute
	retryMin       = time.Second
	retryMax       = 30 * time.Second
)

// Options of Keep.
type Options struct {
	Requests  Requests
	Node, Dir string
	Logger    *slog.Logger
	// Kept, if not nil, is called with the time of the next renewal when the files are valid.
	Kept func(due time.Time)
}

// Keep renews the files until ctx ends. It retries after failures.
func Keep(ctx context.Context, o Options) error {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("directory of the credentials: %w", err)
	}
	retry := retryMin
	var told time.Time
	for {
		due, err := o.current()
		if err != nil {
			o.Logger.Info("this node needs credentials for etcd", "reason", err)
			if due, err = o.renew(ctx); err != nil {
				if ctx.Err() != nil {
					return nil
				}
				o.Logger.Warn("requesting credentials for etcd failed, retrying", "in", retry, "error", err)
				due = time.Now().Add(retry)
				retry = min(2*retry, retryMax)
			}
		}
		if err == nil {
			retry = retryMin
			if o.Kept != nil && !due.Equal(told) {
				o.Kept(due)
			}
			told = due
		}
		select {
		// The machine may sleep, or its clock may be set.
		case <-time.After(min(time.Until(due), time.Minute)):
		case <-ctx.Done():
			return nil
		}
	}
}

// current returns the time of the next renewal, or an error with the reason to renew now.
func (o Options) current() (time.Time, error) {
	authority, err := os.ReadFile(filepath.Join(o.Dir, AuthorityFile))
	if errors.Is(err, fs.ErrNotExist) {
		return time.Time{}, errors.New("it has none")
	}
	if err != nil {
		return time.Time{}, err
	}
	if _, err := pki.ParseCertificate(authority); err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", AuthorityFile, err)
	}
	data, err := os.ReadFile(filepath.Join(o.Dir, ClientFile))
	if err != nil {
		return time.Time{}, err
	}
	cert, err := pki.ParseCertificate(data)
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: %w", ClientFile, err)
	}
	if user := access.NodeUser + o.Node; cert.Subject.CommonName != user {
		return time.Time{}, fmt.Errorf("they belong to %s", cert.Subject.CommonName)
	}
	due := pki.Due(cert)
	if !time.Now().Before(due) {
		return time.Time{}, fmt.Errorf("their renewal has been due since %s", due.Format(time.RFC3339))
	}
	return due, nil
}

func (o Options) renew(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	c, err := Request(ctx, o.Requests, access.NodeUser+o.Node, nil, nil)
	if err != nil {
		return time.Time{}, err
	}
	if err := c.Write(o.Dir); err != nil {
		return time.Time{}, err
	}
	due, err := o.current()
	if err == nil {
		o.Logger.Info("this node has credentials for etcd", "renewal", due)
	}
	return due, err
}
