package labtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/contiv/contiv/test/lab"
)

// Apply applies Kubernetes objects in YAML to a lab.
func Apply(t testing.TB, l *lab.Lab, objects string) {
	t.Helper()
	if err := TryApply(t, l, objects); err != nil {
		t.Fatal(err)
	}
}

// TryApply is Apply with an error result.
func TryApply(t testing.TB, l *lab.Lab, objects string) error {
	t.Helper()
	_, err := l.Apply(t.Context(), objectsFile(t, objects))
	return err
}

// Delete deletes the objects now and again at the end of the test. It ignores missing objects.
func Delete(t testing.TB, l *lab.Lab, objects string) {
	t.Helper()
	if _, err := l.Delete(context.WithoutCancel(t.Context()), objectsFile(t, objects)); err != nil && !errors.Is(err, lab.ErrNotFound) {
		t.Fatal(err)
	}
}

func objectsFile(t testing.TB, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// RequireQuietRestart restarts the agent of a node and checks that it finds nothing to do.
func RequireQuietRestart(t testing.TB, l *lab.Lab, node string) {
	t.Helper()
	begun := time.Now()
	if err := l.RestartAgent(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	txns, err := l.Agent(node).Transactions(t.Context(), begun)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range lab.Operations(txns...) {
		t.Errorf("the restarted agent executed %v %s: %v → %v", op.Operation, op.Key, op.PrevValue, op.NewValue)
	}
}
