package controller

import (
	"errors"
	"fmt"
)

// InternalDataDescriber is implemented by handlers whose state is compared before and after a
// VerificationResync.
type InternalDataDescriber interface {
	DescribeInternalData() string
}

func describeInternalData(handlers []EventHandler) []string {
	data := make([]string, len(handlers))
	for i, h := range handlers {
		if d, ok := h.(InternalDataDescriber); ok {
			data[i] = d.DescribeInternalData()
		}
	}
	return data
}

// verify adds an error if a VerificationResync changed anything.
func (p *processing) verify() {
	if _, ok := p.event.(*VerificationResync); !ok {
		return
	}
	for i, after := range describeInternalData(p.Controller.handlers) {
		if before := p.internalData[i]; before != after {
			p.errs = append(p.errs, fmt.Errorf("verification: internal data of %s are\n%s\nbut should be\n%s", p.Controller.handlers[i], before, after))
		}
	}
	if t := p.record.Txn; t != nil && t.Operations > 0 {
		p.errs = append(p.errs, fmt.Errorf("verification: transaction #%d had to execute %d operations", t.SeqNum, t.Operations))
	}
	if len(p.errs) > 0 {
		p.log.Error("Verification failed", "error", errors.Join(p.errs...))
	}
}
