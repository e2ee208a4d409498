package conditions

import (
	"context"

	"github.com/contiv/contiv/internal/kubernetes/kubeapi"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	broadcaster.StartRecordingToSink(sink{k.o.Client})
	// The scheme may be empty, because events refer to objects by ObjectReference.
	return broadcaster.NewRecorder(runtime.NewScheme(), corev1.EventSource{Component: "contiv-ksr"}), broadcaster.Shutdown
}

// sink writes events to the API server.
type sink struct{ client *kubeapi.Client }

func (s sink) Create(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Create(context.TODO(), e, metav1.CreateOptions{})
}

func (s sink) Update(e *corev1.Event) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Update(context.TODO(), e, metav1.UpdateOptions{})
}

func (s sink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	return s.client.Events(e.Namespace).Patch(context.TODO(), e.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
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
