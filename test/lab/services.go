package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/contiv/contiv/internal/kubernetes/ksr/access"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
)

const (
	etcdRole = "etcd"
	ksrRole  = "ksr"
)

func (s *State) etcdAddress() string { return net.JoinHostPort(s.router().String(), "32379") }

func (l *Lab) start(st *State, role, netns, program string, args ...string) error {
	log := l.Path("logs", logName(role))
	p, err := startProcess(st.Name, netns, log, append([]string{l.Program(program)}, args...))
	if err != nil {
		return err
	}
	st.Processes[role] = p
	return st.write(l.dir)
}

func logName(role string) string {
	name := []byte(role)
	for i := range name {
		if name[i] == '/' {
			name[i] = '-'
		}
	}
	return string(name) + ".log"
}

func (l *Lab) startEtcd(ctx context.Context, st *State) error {
	l.progress("starting etcd")
	args := []string{"--data-dir", l.Path("etcd"), "--listen-client", st.etcdURL(), "--listen-peer", "http://127.0.0.1:32380"}
	if st.TLS {
		authority, _ := l.certificate(authorityName)
		cert, key := l.certificate(serverName)
		args = append(args, "--cert-file", cert, "--key-file", key, "--client-ca-file", authority)
	} else {
		args = append(args, "--plain-text")
	}
	if st.users() {
		args = append(args, "--users")
	}
	if err := l.start(st, etcdRole, st.Underlay(), "contiv-etcd", args...); err != nil {
		return err
	}
	return l.await(ctx, "etcd", st.Processes[etcdRole], l.etcdReady(st))
}

func (l *Lab) etcdReady(st *State) func(context.Context) error {
	config, err := l.tlsOf(st, access.Root)
	if err != nil {
		return func(context.Context) error { return err }
	}
	transport := insecure.NewCredentials()
	if config != nil {
		transport = credentials.NewTLS(config)
	}
	underlay := NetnsPath(st.Underlay())
	dial := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
		return dialIn(ctx, underlay, "tcp", address)
	})
	return func(ctx context.Context) error {
		conn, err := grpc.NewClient("passthrough:///"+st.etcdAddress(), grpc.WithTransportCredentials(transport), dial)
		if err != nil {
			return err
		}
		defer conn.Close()
		health, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		if err == nil && health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			err = fmt.Errorf("etcd says that it is %v", health.Status)
		}
		return err
	}
}

func (l *Lab) ksrSocket() string { return l.Path("ksr.sock") }

func (l *Lab) startKSR(ctx context.Context, st *State) error {
	l.progress("starting KSR")
	args := []string{"--source", "dir", "--manifests", l.Path("manifests"), "--etcd-endpoints", st.etcdURL(), "--http", "unix://" + l.ksrSocket()}
	if st.TLS {
		authority, _ := l.certificate(authorityName)
		cert, key := l.certificate(access.Root)
		conf := fmt.Sprintf("ca-file: %s\ncert-file: %s\nkey-file: %s\n", authority, cert, key)
		if err := os.WriteFile(l.Path("etcd.conf"), []byte(conf), 0o600); err != nil {
			return err
		}
		args = append(args, "--etcd-config", l.Path("etcd.conf"), "--users")
	}
	if err := l.start(st, ksrRole, st.Underlay(), "contiv-ksr", args...); err != nil {
		return err
	}
	return l.await(ctx, "KSR", st.Processes[ksrRole], NewREST(l.ksrSocket()).Ready)
}

// StopEtcd stops etcd and keeps its data.
func (l *Lab) StopEtcd(ctx context.Context) error {
	return l.change(ctx, func(st *State) error {
		if !st.Processes[etcdRole].Alive() {
			l.progress("etcd is stopped already")
			return nil
		}
		l.progress("stopping etcd")
		return st.Processes[etcdRole].stop(stopGrace)
	})
}

// StartEtcd starts etcd with its data unless it runs, and waits until it serves.
func (l *Lab) StartEtcd(ctx context.Context) error {
	return l.change(ctx, func(st *State) error {
		if st.Processes[etcdRole].Alive() {
			l.progress("etcd runs already")
			return nil
		}
		return l.startEtcd(ctx, st)
	})
}

// StopKSR stops KSR.
func (l *Lab) StopKSR(ctx context.Context) error {
	return l.change(ctx, func(st *State) error {
		l.progress("stopping KSR")
		return st.Processes[ksrRole].stop(stopGrace)
	})
}

// StartKSR starts KSR unless it runs, and waits until it has reflected all objects to etcd.
func (l *Lab) StartKSR(ctx context.Context) error {
	return l.change(ctx, func(st *State) error {
		if st.Processes[ksrRole].Alive() {
			return nil
		}
		return l.startKSR(ctx, st)
	})
}

// endedError is a permanent failure of a readiness check.
type endedError struct{ error }

// await polls ready until it returns nil. It fails if the process ends, if ready returns an
// endedError, or after StartTimeout.
func (l *Lab) await(ctx context.Context, what string, p Process, ready func(context.Context) error) error {
	return l.awaitWithin(ctx, l.opts.StartTimeout, what, p, ready)
}

func (l *Lab) awaitWithin(ctx context.Context, timeout time.Duration, what string, p Process, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ended := make(chan struct{})
	go func() {
		if p.wait(ctx) == nil {
			close(ended)
		}
	}()
	start := time.Now()
	nextReport := start.Add(3 * time.Second)
	var reason error
	for {
		attempt, cancelAttempt := context.WithTimeout(ctx, max(2*time.Second, timeout/60))
		err := ready(attempt)
		cancelAttempt()
		if fatal := (endedError{}); errors.As(err, &fatal) {
			return fmt.Errorf("%s: %w; %s", what, err, p.logTail())
		}
		if err == nil {
			l.progress("%s is ready after %s", what, time.Since(start).Round(time.Millisecond))
			return nil
		}
		if ctx.Err() == nil {
			reason = err
		}
		if time.Now().After(nextReport) {
			nextReport = time.Now().Add(3 * time.Second)
			l.progress("%s is not ready yet: %v", what, reason)
		}
		select {
		case <-ended:
			return fmt.Errorf("%s: process %d has ended before it was ready; %s", what, p.PID, p.logTail())
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), context.Canceled) {
				return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
			}
			return fmt.Errorf("%s is not ready after %s: %w; %s", what, time.Since(start).Round(time.Second), reason, p.logTail())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Logs returns the paths of the log files.
func (l *Lab) Logs() ([]string, error) {
	entries, err := os.ReadDir(l.Path("logs"))
	var paths []string
	for _, e := range entries {
		paths = append(paths, l.Path("logs", e.Name()))
	}
	return paths, err
}
