package conditions

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
)

// After a burst, one event of a node is sent per interval. Others are dropped.
const (
	eventBurst   = 10
	eventsPerSec = 1. / 60
)

const (
	eventReady    = "ContivReady"
	eventDegraded = "ContivDegraded"
	eventNotReady = "ContivNotReady"
	eventUnknown  = "ContivUnknown"
)

// recorder returns an event recorder and its stop function. Repeated events are counted.
func (k *Keeper) recorder() (events record.EventRecorder, end func()) {
	broadcaster := record.NewBroadcasterWithCorrelatorOptions(record.CorrelatorOptions{BurstSize: eventBurst, QPS: eventsPerSec})
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: k.o.Client.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "contiv-ksr"}), broadcaster.Shutdown
}

// announce sends events about changes of a node.
func announce(events record.EventRecorder, name string, before, now state) {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: name, UID: types.UID(name)} // as in the kubelet's events
	reason := eventDegraded
	switch {
	case now.reason == Healthy:
		if before.status != "" && before.kind() != now.kind() {
			events.Event(ref, corev1.EventTypeNormal, eventReady, now.message)
		}
		return
	case now.status == corev1.ConditionFalse:
		reason = eventNotReady
	case now.status == corev1.ConditionUnknown:
		reason = eventUnknown
	}
	for _, text := range now.news(before) {
		events.Event(ref, corev1.EventTypeWarning, reason, text)
	}
}
