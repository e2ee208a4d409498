package feedback

import (
	"context"
	"fmt"
	"strings"
)

// Problems returns the number of values in etcd that cannot be decoded, with one of the errors.
// These values do not reach the scheduler, so no other check sees them.
func (p *Publisher) Problems(context.Context) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	count, first := 0, ""
	for key, e := range p.entries {
		if e.err == nil || e.gone() || isRequest(key) {
			continue
		}
		if count == 0 || key < first {
			first = key
		}
		count++
	}
	if count == 0 {
		return nil
	}
	of := "1 value in etcd is"
	if count > 1 {
		of = fmt.Sprintf("%d values in etcd are", count)
	}
	reason := strings.ReplaceAll(p.entries[first].err.Error(), "\n", "; ")
	if !strings.Contains(reason, first) {
		reason = first + ": " + reason
	}
	return []string{strings.ToValidUTF8(of+" INVALID, such as: "+reason, "\uFFFD")}
}
